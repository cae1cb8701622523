"""The server is stopped the hard way under several worker processes, and comes back seconds later (C16)."""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from own_server import OwnServer
from processes import PATIENCE, eventually
from refusing import Refusing

import bandog
from bandog import Completed, Job

if TYPE_CHECKING:
    from journal import Journal, Running

DOWN = 5.0
"""Seconds without a server, at least."""

HOWS = ("threads", "coroutines", "processes", "threads")
GRACE = 1.0
MARGIN = 1.5
"""Seconds that a busy machine may add to the end of a process."""

LOST = 20
"""Claims whose leases have ended; half of them are recovered before the server goes."""

LINKS = 7
"""Of one worker: claiming, renewing, settling, ingesting, looking, managing, telling."""


@pytest.fixture
def server() -> Iterator[OwnServer]:
    with OwnServer() as server:
        bandog.migrate(server.url)
        yield server


def expire(queue: bandog.Queue) -> None:
    """Claims of a worker that is gone."""
    queue.ingest_many(
        Job(job_id=f"expired-{number}", queue="lost", payload={"do": "effect"}, max_recoveries=2)
        for number in range(LOST)
    )
    assert len(queue.claim(queues="lost", limit=LOST, lease=0.5)) == LOST


@contextmanager
def half_of_recovery(server: OwnServer) -> Generator[Callable[[], None]]:
    """Half of the lost claims are kept from recovery; until the caller asks for it to come to them and hang there."""
    later = [f"expired-{number}" for number in range(LOST // 2)]
    theirs = "FROM bandog.lease JOIN bandog.job USING (number) WHERE job_id = ANY(%s)"
    again = "number, queue, lane, priority, now(), false, 1, 0, 0"
    columns = "number, queue, lane, priority, available_at, late, attempts, given_back, recoveries"
    waiting = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'bandog' AND wait_event_type = 'Lock'"
    with closing(server.connection()) as keeping, closing(server.connection()) as hindering:
        keeping.execute("BEGIN")
        keeping.execute(f"SELECT 1 {theirs} FOR UPDATE OF lease".encode(), (later,))

        def let_it_hang() -> None:
            # Their places among the queued jobs are taken, by somebody who has not committed.
            hindering.execute("BEGIN")
            hindering.execute(f"INSERT INTO bandog.ready ({columns}) SELECT {again} {theirs}".encode(), (later,))
            keeping.execute("ROLLBACK")
            eventually(lambda: server.execute(waiting), "recovery is under way")

        yield let_it_hang


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
    """20 jobs run, some of which end meanwhile; recovery is half way: committed for some, under way for the others."""
    # Some end while it is down, and some after it.
    seconds = [1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, *[DOWN + 4] * 10]
    with bandog.connect(server.url) as queue:
        expire(queue)
        with half_of_recovery(server) as let_it_hang:
            workers = [
                run_worker(server.url, how, concurrency=6, lease=30, poll=0.5, grace=10.0, queues=["default", "lost"])
                for how in HOWS
            ]
            eventually(lambda: len(journal.notes("end")) == LOST // 2, "the others are recovered, and run")
            queue.ingest_many(
                Job(job_id=f"job-{number}", payload={"do": "effect", "seconds": took})
                for number, took in enumerate(seconds)
            )
            journal.await_start(*(f"job-{number}" for number in range(len(seconds))))
            let_it_hang()
            server.kill()
        begun, begun_at = time.monotonic(), time.time()
        pids = {worker.pid for worker in workers}
        with Refusing(server.folder) as refusing:
            eventually(
                lambda: (
                    time.monotonic() - begun > DOWN
                    and [note for note in journal.notes("effect") if note["at"] > begun_at]
                    and pids <= refusing.calls.keys()
                ),
                "it is down for a while, jobs end, and all have tried",
            )
            down = time.monotonic() - begun
        server.start()
        assert server.execute("SELECT count(*) FROM bandog.ready") == [(0,)]
        left = [queue.read(f"expired-{number}") for number in range(LOST)]
        assert {record.recoveries for record in left[: LOST // 2]} <= {0, 1}
        assert all(isinstance(record.outcome, Completed) for record in left[LOST // 2 :]), "what was committed stays"
        eventually(lambda: not pending(queue), "everything gets its outcome", 2 * PATIENCE)
        over = time.monotonic() - begun
        assert_once(queue, journal, LOST + len(seconds))
        recovered = [queue.read(f"expired-{number}").recoveries for number in range(LOST)]
        assert recovered == [1] * LOST
    for worker in workers:
        assert worker.child.process.poll() is None, "it is the process that was started"
        worker.tell(signal.SIGTERM)
    for worker in workers:
        assert worker.end(within=10) == 0
        assert "Traceback" not in worker.log
        # The store's links complain once a second together; the feeder and the renewals once each.
        assert complaints(worker) <= over + 3, worker.log
    check_pauses([refusing.calls[pid] for pid in pids], down)


def check_pauses(calls: list[list[float]], down: float) -> None:
    """Pauses double from 25 to 50 ms up to 2.5 to 5 s, and no two hosts keep step."""
    attempts = 1
    waited, pause = 0.0, 0.025
    while waited < down:
        waited, pause, attempts = waited + pause, min(2 * pause, 2.5), attempts + 1
    for times in calls:
        assert len(times) <= LINKS * (attempts + 1), "it tries too often"
    late = [[at for at in times if at > min(times) + 1] for times in calls]
    for number, times in enumerate(late):
        for others in late[number + 1 :]:
            in_step = [at for at in times if any(abs(at - other) < 0.002 for other in others)]
            assert len(in_step) <= 1 + len(times) / 2, "they come together"


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
    assert worker.end(within=GRACE + 2 + MARGIN) == 0
    assert "Traceback" not in worker.log
    assert "were not recorded" in worker.log
    server.start()
    with bandog.connect(server.url) as queue:
        assert {record.outcome for record in queue.jobs().jobs} == {None}
