-- Remember where the wall clock stands against the uptime.
UPDATE bandog_clock
SET wall_minus_uptime = ?1
