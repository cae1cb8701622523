-- Remember that a migration was applied.
INSERT INTO bandog_schema (version, applied_at)
VALUES (?1, ?2)
