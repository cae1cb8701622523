-- How many jobs are completed, counted up to a bound.
SELECT count(*) AS size
FROM (SELECT 1 FROM bandog_outcome WHERE kind = 'completed' LIMIT ?1)
