"""The server is stopped the hard way under several worker processes, and comes back seconds later (C16)."""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from own_server import OwnServer
from processes import PATIENCE, eventually

import bandog
from bandog import Completed, Job

if TYPE_CHECKING:
    from journal import Journal, Running

DOWN = 4.0
"""Seconds without a server."""

HOWS = ("threads", "coroutines", "processes", "threads")
GRACE = 1.0


@pytest.fixture
def server() -> Iterator[OwnServer]:
    with OwnServer() as server:
        bandog.migrate(server.url)
        yield server


def pause(seconds: float) -> None:
    until = time.monotonic() + seconds
    eventually(lambda: time.monotonic() > until, "time passes")


def expire(queue: bandog.Queue, count: int) -> None:
    """Claims of a worker that is gone, whose leases end while the server is down."""
    queue.ingest_many(
        Job(job_id=f"expired-{number}", queue="lost", payload={"do": "effect"}, max_recoveries=2)
        for number in range(count)
    )
    assert len(queue.claim(queues="lost", limit=count, lease=DOWN - 1)) == count


def complaints(worker: Running) -> int:
    return len(re.findall(r"^(WARNING|ERROR|CRITICAL)", worker.log, re.MULTILINE))


def assert_once(queue: bandog.Queue, journal: Journal, expected: int) -> None:
    """Every job has one outcome, and an effect for each attempt that was not lost with its lease."""
    records = queue.jobs(limit=1_000).jobs
    assert len(records) == expected
    effects = Counter((note["job"], note["attempt"]) for note in journal.notes("effect"))
    assert set(effects.values()) == {1}, "one claim was carried out twice"
    for record in records:
        assert record.outcome == Completed({"attempt": record.attempts}), record
        assert (record.job_id, record.attempts) in effects
        assert record.attempts == 1 + record.recoveries + record.given_back
        if not record.job_id.startswith("expired-"):
            # Its lease outlived the time without a server.
            assert record.recoveries == 0, record
    assert queue.stats(bound=1_000).outcomes["completed"] == expected


def test_a_restart_loses_nothing_and_runs_nothing_twice(
    server: OwnServer, run_worker: Callable[..., Running], journal: Journal
) -> None:
    with bandog.connect(server.url) as queue:
        expire(queue, 20)
        # Some end while it is down, some go on after it, some are still to be started.
        queue.ingest_many(
            Job(job_id=f"job-{number}", payload={"do": "effect", "seconds": seconds})
            for number, seconds in enumerate([0.5] * 10 + [DOWN / 2] * 10 + [DOWN + 2] * 8 + [0.01] * 72)
        )
        workers = [
            run_worker(server.url, how, concurrency=5, lease=30, poll=0.5, grace=10.0, queues=["default", "lost"])
            for how in HOWS
        ]
        eventually(lambda: len(journal.notes("start")) >= 20, "all are at work")
        server.kill()
        begun = time.monotonic()
        pause(DOWN)
        server.start()
        down = time.monotonic() - begun
        eventually(lambda: not pending(queue), "everything gets its outcome", 2 * PATIENCE)
        assert_once(queue, journal, 120)
    for worker in workers:
        assert worker.child.process.poll() is None, "it is the process that was started"
        worker.tell(signal.SIGTERM)
    for worker in workers:
        assert worker.end(within=10) == 0
        assert "Traceback" not in worker.log
        # The store's links complain once a second together; the feeder and the renewals once each.
        assert complaints(worker) <= down + 10, worker.log


def pending(queue: bandog.Queue) -> bool:
    with suppress(bandog.StoreError):
        return queue.has_pending_work()
    return True


@pytest.mark.parametrize("how", ["threads", "coroutines", "processes"])
def test_a_worker_stops_in_time_while_the_server_is_down(
    server: OwnServer, run_worker: Callable[..., Running], journal: Journal, how: str
) -> None:
    with bandog.connect(server.url) as queue:
        queue.enqueue({"do": "sleep", "seconds": 0.5}, job_id="ends")
        queue.enqueue({"do": "obey", "seconds": PATIENCE}, job_id="obeys")
    worker = run_worker(server.url, how, concurrency=2, lease=30, grace=GRACE)
    journal.await_start("ends", "obeys")
    server.kill()
    worker.tell(signal.SIGTERM)
    # The grace, two seconds for what is left to be recorded, and three for the links.
    assert worker.end(within=GRACE + 2 + 4) == 0
    assert "Traceback" not in worker.log
    assert "were not recorded" in worker.log
    server.start()
    with bandog.connect(server.url) as queue:
        assert {record.outcome for record in queue.jobs().jobs} == {None}
