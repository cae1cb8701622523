-- Whether bandog's tables are in this file.
SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'bandog_schema') AS found
