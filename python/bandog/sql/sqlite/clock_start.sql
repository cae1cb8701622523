-- The clocks of a new file.
INSERT INTO bandog_clock (only, boot, wall_minus_uptime)
VALUES (1, ?1, ?2)
