-- Whether a liveness probe stands for some running claim: one index seek.
SELECT EXISTS (SELECT 1 FROM bandog_lease WHERE lease_until IS NULL) AS probed
