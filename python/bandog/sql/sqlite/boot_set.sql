-- From now on the ends of leases belong to this boot.
INSERT INTO bandog_clock (only, boot)
VALUES (1, ?1)
ON CONFLICT (only) DO UPDATE SET boot = excluded.boot
