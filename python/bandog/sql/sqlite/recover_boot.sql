-- The machine was started again since: no holder of a claim has outlived that, and the uptime began anew.
UPDATE bandog_lease
SET lease_until = 0
WHERE lease_until IS NOT NULL
