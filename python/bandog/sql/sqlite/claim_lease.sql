-- A job becomes running.
INSERT INTO bandog_lease (
    number, lease_token, lease_until, worker, claimed_at,
    attempts, given_back, recoveries, last_token, last_report, last_error
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
