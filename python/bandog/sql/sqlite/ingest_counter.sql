-- The last order number that was given out.
SELECT last
FROM bandog_counter
