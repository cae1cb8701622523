-- The boot that the ends of leases belong to.
SELECT boot
FROM bandog_clock
