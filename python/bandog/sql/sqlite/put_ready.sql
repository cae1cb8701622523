-- A job becomes queued: admitted, put back, recovered or requeued.
INSERT INTO bandog_ready (
    number, queue, lane, priority, available_at, held,
    attempts, given_back, recoveries, last_token, last_report, last_error
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
