-- Admit one job. Nothing is inserted where the job_id is taken: then ingest_existing.sql tells duplicate from conflict.
-- No RETURNING in statements of the hot path: SQLite builds a temporary table for it, which cost a third of the speed.
INSERT INTO bandog_job (
    number, job_id, queue, lane, priority, payload, max_attempts, max_recoveries,
    backoff_base, backoff_cap, backoff_jitter, timeout, admitted_at
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT (job_id) DO NOTHING
