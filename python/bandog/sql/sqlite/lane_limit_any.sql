-- Whether any lane is bounded: mostly none is, and then no job's lane needs a look.
SELECT EXISTS (SELECT 1 FROM bandog_lane_limit) AS bounded
