-- Settled jobs leave the outcome table: requeued. The caller holds their rows locked.
DELETE FROM bandog.outcome
WHERE number = ANY ($1)
