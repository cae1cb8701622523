-- Forget jobs that were settled at least $1 microseconds ago, the longest settled first: those of the kinds $2, and
-- completed ones where $3 says so; $4 at most.
WITH until AS MATERIALIZED (
    SELECT bandog.clock() - $1 * interval '1 microsecond' AS at
), chosen AS MATERIALIZED (
    SELECT outcome.number
    FROM (
        SELECT candidate.number
        FROM (
            (SELECT outcome.settled_at, outcome.number FROM bandog.outcome AS outcome
            WHERE outcome.kind = 'completed' AND outcome.settled_at <= (SELECT until.at FROM until)
            ORDER BY outcome.settled_at, outcome.number LIMIT (CASE WHEN $3 THEN $4 ELSE 0 END))
            UNION ALL
            SELECT other.settled_at, other.number
            FROM unnest($2) AS named (kind)
            CROSS JOIN LATERAL (
                SELECT outcome.settled_at, outcome.number FROM bandog.outcome AS outcome
                WHERE outcome.kind = named.kind AND outcome.kind <> 'completed'
                    AND outcome.settled_at <= (SELECT until.at FROM until)
                ORDER BY outcome.settled_at, outcome.number LIMIT $4
            ) AS other
        ) AS candidate
        ORDER BY candidate.settled_at, candidate.number
        LIMIT $4
    ) AS candidate
    CROSS JOIN LATERAL (
        SELECT outcome.number FROM bandog.outcome AS outcome WHERE outcome.number = candidate.number
        FOR UPDATE SKIP LOCKED
    ) AS outcome
), purged AS (
    DELETE FROM bandog.outcome WHERE number = ANY (ARRAY(SELECT chosen.number FROM chosen))
    RETURNING number
)
DELETE FROM bandog.job WHERE number = ANY (ARRAY(SELECT purged.number FROM purged))
RETURNING number
