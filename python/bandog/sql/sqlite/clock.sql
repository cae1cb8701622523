-- The boot that the ends of leases belong to, and where the wall clock stood against the uptime when last looked.
SELECT boot, wall_minus_uptime
FROM bandog_clock
