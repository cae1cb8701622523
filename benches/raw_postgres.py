"""The raw SQL loop that bandog is measured against on PostgreSQL: psycopg on the same tables, no checks, no API.

Claim and settle are one batched, prepared statement each, with binary parameters and results, one commit a batch. What
they do is what has to be done: a claim deletes the ready rows, inserts leases under a token, and reads the payloads; a
settlement deletes the leases by that token while they last, and inserts the outcomes. The loop comes in three shapes,
and the best of them counts:

- ``overlap``: one connection claims the next batch in a thread of its own while another settles the last one;
- ``independent``: two threads, each with a connection, each claiming and settling its own batches;
- ``together``: the same, but the outcomes of one batch and the claims of the next are one transaction.
"""

from __future__ import annotations

import queue as queues
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from measuring import PAYLOAD_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable

INGEST = """
WITH new AS MATERIALIZED (
    SELECT bandog.next_number() AS number, fresh.* FROM unnest(%b::text[], %b::text[]) AS fresh (job_id, payload)
), admitted AS (
    INSERT INTO bandog.job (number, job_id, queue, lane, priority, payload, admitted_at)
    SELECT number, job_id, 'default', 'default', 0, payload::json, now() FROM new
)
INSERT INTO bandog.ready (number, queue, lane, priority, available_at, late, attempts, given_back, recoveries)
SELECT number, 'default', 'default', 0, now(), false, 0, 0, 0 FROM new
"""

# It starts where the last claim ended, as bandog's does: what lies before that is dead.
CLAIM = """
WITH taken AS (
    DELETE FROM bandog.ready WHERE number = ANY (ARRAY(
        SELECT number FROM bandog.ready
        WHERE queue = 'default' AND priority = 0 AND available_at >= %b AND available_at <= clock_timestamp()
        ORDER BY available_at, number LIMIT %b
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING number, available_at, attempts, given_back, recoveries
), held AS (
    INSERT INTO bandog.lease (number, lease_token, lease_until, worker, claimed_at, attempts, given_back, recoveries)
    SELECT number, %b, clock_timestamp() + interval '2 minutes', 'raw', clock_timestamp(), attempts + 1,
        given_back, recoveries
    FROM taken
)
SELECT taken.number, taken.available_at, job.job_id, job.payload::text
FROM taken
CROSS JOIN LATERAL (SELECT job_id, payload FROM bandog.job WHERE job.number = taken.number LIMIT 1) AS job
"""

SETTLE = """
WITH ended AS (
    DELETE FROM bandog.lease
    WHERE number = ANY (%b) AND lease_token = %b AND lease_until > clock_timestamp()
    RETURNING number, worker, attempts, given_back, recoveries, lease_token
)
INSERT INTO bandog.outcome (number, kind, settled_at, worker, attempts, given_back, recoveries, last_token)
SELECT number, 'completed', clock_timestamp(), worker, attempts, given_back, recoveries, lease_token FROM ended
"""

OVERLAP = timedelta(milliseconds=20)
"""How far before the last claimed row the next claim looks, for those that were committed late."""

Batch = tuple[str, list[tuple[Any, ...]]]
"""A token, and what was claimed under it."""


class RawConnection:
    """One connection, and the three statements on it."""

    def __init__(self, url: str) -> None:
        # A plan made while the tables were nearly empty would read them whole, with the dead rows of a held snapshot.
        options = "-c enable_seqscan=off"
        self.connection = psycopg.connect(url, autocommit=True, prepare_threshold=0, options=options)
        self.cursor = self.connection.cursor(binary=True)
        self.since = datetime(2000, 1, 1, tzinfo=UTC)

    def close(self) -> None:
        self.connection.close()

    def ingest(self, size: int) -> None:
        """Insert a batch of jobs."""
        identity = uuid.uuid4().hex
        ids = [f"job-{identity}-{number:06}" for number in range(size)]
        self.cursor.execute(INGEST, (ids, [PAYLOAD_TEXT] * size))

    def claim(self, limit: int) -> Batch:
        """Claim a batch: ready rows become lease rows. Payloads come back as text: parsing is the executor's."""
        token = uuid.uuid4().hex
        rows = self.cursor.execute(CLAIM, (self.since, limit, token)).fetchall()
        if rows:
            self.since = max(row[1] for row in rows) - OVERLAP
        return token, rows

    def settle(self, batch: Batch) -> None:
        """Settle a batch: lease rows become outcome rows."""
        token, rows = batch
        self.cursor.execute(SETTLE, ([row[0] for row in rows], token))
        assert self.cursor.rowcount == len(rows), "a lease was lost"

    def settle_and_claim(self, batch: Batch, limit: int) -> Batch:
        """Both in one round trip. Statements of one pipeline are one transaction, with one commit."""
        token, rows = batch
        claimed = uuid.uuid4().hex
        with self.connection.pipeline():
            ended = self.connection.cursor(binary=True).execute(SETTLE, ([row[0] for row in rows], token))
            self.cursor.execute(CLAIM, (self.since, limit, claimed))
        assert ended.rowcount == len(rows), "a lease was lost"
        found = self.cursor.fetchall()
        if found:
            self.since = max(row[1] for row in found) - OVERLAP
        return claimed, found


# The shapes. Each has `done` jobs executed by `execute`, a batch at a time, until none is left.


def overlap(url: str, limit: int, execute: Callable[[list[Any]], object]) -> int:
    """Claim, execute and settle in three threads; the next batch is claimed while this one runs."""
    claimed: queues.Queue[Batch | None] = queues.Queue(maxsize=1)
    executed: queues.Queue[Batch | None] = queues.Queue(maxsize=1)

    def claim() -> None:
        with closing(RawConnection(url)) as connection:
            while (batch := connection.claim(limit))[1]:
                claimed.put(batch)
        claimed.put(None)

    def settle() -> None:
        with closing(RawConnection(url)) as connection:
            while batch := executed.get():
                connection.settle(batch)

    threads = [threading.Thread(target=claim), threading.Thread(target=settle)]
    for thread in threads:
        thread.start()
    done = 0
    while batch := claimed.get():
        execute(batch[1])
        executed.put(batch)
        done += len(batch[1])
    executed.put(None)
    for thread in threads:
        thread.join()
    return done


def independent(url: str, limit: int, execute: Callable[[list[Any]], object]) -> int:
    """Two threads, each of which claims, executes and settles."""

    def body(connection: RawConnection) -> int:
        done = 0
        while (batch := connection.claim(limit))[1]:
            execute(batch[1])
            connection.settle(batch)
            done += len(batch[1])
        return done

    return _twice(url, body)


def together(url: str, limit: int, execute: Callable[[list[Any]], object]) -> int:
    """Two threads, each of which claims, executes, and settles with the next claim."""

    def body(connection: RawConnection) -> int:
        done = 0
        batch = connection.claim(limit)
        while batch[1]:
            execute(batch[1])
            done += len(batch[1])
            batch = connection.settle_and_claim(batch, limit)
        return done

    return _twice(url, body)


def _twice(url: str, body: Callable[[RawConnection], int]) -> int:
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        connections = [stack.enter_context(closing(RawConnection(url))) for _ in range(2)]
        return sum(pool.map(body, connections))


SHAPES = {"overlap": overlap, "independent": independent, "together": together}
