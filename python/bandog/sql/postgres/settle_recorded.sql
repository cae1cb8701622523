-- What was recorded for the last claim of these jobs that was ended by its holder: the answer to a settle whose reply was
-- lost. last_report is a word, and after a put-back the number of the attempt that was put back; available_at is where a
-- queued job waits now. `held` marks a claim that still holds: somebody else has it locked.
SELECT named.number, recorded.*
FROM unnest($1::pg_catalog.int8[], $2::pg_catalog.text[]) AS named (number, lease_token)
CROSS JOIN LATERAL (
    SELECT lease.last_report, NULL::timestamp with time zone AS available_at, lease.attempts, false AS held
    FROM bandog.lease AS lease
    WHERE lease.number OPERATOR(pg_catalog.=) named.number
        AND lease.last_token OPERATOR(pg_catalog.=) named.lease_token
    UNION ALL
    SELECT NULL, NULL, lease.attempts, true
    FROM bandog.lease AS lease
    WHERE lease.number OPERATOR(pg_catalog.=) named.number
        AND lease.lease_token OPERATOR(pg_catalog.=) named.lease_token
        AND lease.lease_until OPERATOR(pg_catalog.>) bandog.clock()
    UNION ALL
    SELECT ready.last_report, ready.available_at, ready.attempts, false
    FROM bandog.ready AS ready
    WHERE ready.number OPERATOR(pg_catalog.=) named.number
        AND ready.last_token OPERATOR(pg_catalog.=) named.lease_token
    UNION ALL
    SELECT coalesce(outcome.last_report, outcome.kind), NULL, outcome.attempts, false
    FROM bandog.outcome AS outcome
    WHERE outcome.number OPERATOR(pg_catalog.=) named.number
        AND outcome.last_token OPERATOR(pg_catalog.=) named.lease_token
) AS recorded
