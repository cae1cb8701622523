-- How many jobs have each outcome, counted up to a bound.
SELECT named.kind, counted.size
FROM unnest($1) AS named (kind)
CROSS JOIN LATERAL (
    SELECT pg_catalog.count(*) AS size
    FROM (
        (SELECT 1 FROM bandog.outcome AS outcome
        WHERE outcome.kind = 'completed' AND named.kind = 'completed' LIMIT $2)
        UNION ALL
        (SELECT 1 FROM bandog.outcome AS outcome
        WHERE outcome.kind = named.kind AND outcome.kind <> 'completed' LIMIT $2)
    ) AS found
) AS counted
