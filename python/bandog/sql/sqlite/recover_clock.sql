-- The wall clock was set back: what was queued to run at once must not wait until the clock has caught up.
UPDATE bandog_ready
SET available_at = ?1
WHERE available_at > ?1 AND held = 0
