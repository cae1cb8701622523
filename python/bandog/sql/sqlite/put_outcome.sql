-- A job becomes settled. A second outcome for the same job violates the primary key.
INSERT INTO bandog_outcome (
    number, kind, settled_at, worker, attempts, given_back, recoveries,
    result, error, evidence, last_token, last_report
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
