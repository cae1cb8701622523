-- When the next running claim expires unless it is renewed.
SELECT min(lease_until) AS lease_until
FROM bandog_lease
WHERE lease_until IS NOT NULL
