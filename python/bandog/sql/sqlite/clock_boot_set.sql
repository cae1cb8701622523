-- From now on the ends of leases belong to this boot.
UPDATE bandog_clock
SET boot = ?1
