"""What a queue keeps on the server does not grow with what it does: sessions, and statements prepared there (C46)."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import bandog

if TYPE_CHECKING:
    from fix_target import Target
    from processes import Look

# Each statement asks for the time, in the session that it is carried out in: there it can be seen what that one keeps.
SPY = """
    CREATE TABLE bandog_seen (pid integer NOT NULL, prepared bigint NOT NULL, statements bigint NOT NULL);
    CREATE FUNCTION bandog_note() RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        IF NOT current_setting('transaction_read_only')::boolean THEN
            INSERT INTO bandog_seen
            SELECT pg_backend_pid(), count(*), count(DISTINCT statement) FROM pg_prepared_statements;
        END IF;
    END $$;
    CREATE OR REPLACE FUNCTION bandog_clock() RETURNS timestamp with time zone LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM bandog_note();
        RETURN clock_timestamp();
    END $$;
"""


@pytest.fixture
def look(target: Target) -> Iterator[Look]:
    with target.looking() as look:
        yield look


def everything(queue: bandog.Queue, turn: int) -> None:
    """Each operation of the hot path, in batches of changing sizes, so that a statement per size would show."""
    size = 1 + turn % 7
    queue.ingest_many([bandog.Job(max_attempts=2, queue=f"queue-{turn % 5}", lane=f"lane-{turn}") for _ in range(size)])
    queue.set_lane_limit("queue-0", f"lane-{turn}", None)
    with pytest.raises(bandog.JobConflict):
        queue.enqueue(turn, job_id="taken")
    claims = queue.claim(limit=size, lease=30)
    assert len(claims) == size
    queue.renew(claims[0], lease=30)
    reports = [bandog.Completed(turn), bandog.Failed("why", retry_in=0), bandog.Release(), bandog.Snooze(0)]
    queue.settle_many([(claim, reports[number % 4]) for number, claim in enumerate(claims)])
    for claim in queue.claim(queues=[f"queue-{number}" for number in range(1 + turn % 5)], limit=30):
        queue.cancel(claim.job_id)
        queue.cancelled(claim)
    queue.recover()
    queue.next_wake()
    queue.has_pending_work()
    for record in queue.jobs(state="queued"):
        if record.job_id != "taken":
            queue.cancel(record.job_id)
    queue.purge(older_than=0, limit=1 + turn % 3)


@pytest.mark.parametrize("target", ["postgres"], indirect=True)
def test_statements_are_prepared_once_and_not_for_every_batch(target: Target, look: Look) -> None:
    look(SPY)
    with target.connect() as queue:
        queue.enqueue(job_id="taken", queue="elsewhere", delay=3600)

        def turns(numbers: range) -> dict[int, tuple[int, int]]:
            look("TRUNCATE bandog_seen")
            for number in numbers:
                everything(queue, number)
            found = look("SELECT pid, max(prepared), max(statements) FROM bandog_seen GROUP BY pid")
            return {pid: (prepared, statements) for pid, prepared, statements in found}

        # Enough for each statement to be found worth it, but for recovery's, which come when it is due.
        before = turns(range(20))
        after = turns(range(20, 80))
    print(before, after)
    assert max(prepared for prepared, _ in before.values()) > 3, "nothing was prepared, so that this shows nothing"
    assert after.keys() == before.keys()
    for pid, (prepared, statements) in after.items():
        assert prepared == statements, "a statement was prepared twice"
        assert prepared <= before[pid][0] + 3


def test_a_queue_that_is_dropped_ends_without_a_collection_of_garbage(target: Target) -> None:
    queue = target.connect()
    queue.enqueue()
    queue.claim()
    gc.collect()
    gc.disable()
    try:
        operations = weakref.ref(queue.operations)
        del queue
        # With them the engine, its threads and its sessions.
        assert operations() is None
    finally:
        gc.enable()
