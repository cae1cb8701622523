-- How many jobs have another outcome, counted up to a bound.
SELECT count(*) AS size
FROM (SELECT 1 FROM bandog_outcome WHERE kind = ?1 AND kind <> 'completed' LIMIT ?2)
