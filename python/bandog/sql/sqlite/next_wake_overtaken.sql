-- After the wall clock was set back: whether a job that may run at once waits for the clock. Reads on until it finds one.
SELECT EXISTS (SELECT 1 FROM bandog_ready WHERE held = 0 AND available_at > ?1) AS overtaken
