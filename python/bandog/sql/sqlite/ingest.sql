-- Admit one job. No row comes back where the job_id is taken: then ingest_existing.sql decides between duplicate and conflict.
INSERT INTO bandog_job (
    job_id, queue, lane, priority, payload, max_attempts, max_recoveries,
    backoff_base, backoff_cap, backoff_jitter, timeout, admitted_at
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (job_id) DO NOTHING
RETURNING number
