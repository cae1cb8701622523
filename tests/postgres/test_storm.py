"""Workers are killed, and so is the server, again and again, while jobs come: each gets one outcome, none is lost.

`BANDOG_STORM_JOBS` is the number of jobs (1,500), and with it that of kills and restarts; `BANDOG_CRASH_SEED` repeats
the dice. A long run also needs `--timeout=0`. The server flushes to its disk, as one of one's own would.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
import pytest
from own_server import OwnServer
from processes import PATIENCE, eventually
from test_kill_storm import KINDS

import bandog
from bandog import Completed, Job

if TYPE_CHECKING:
    from journal import Journal, Running

JOBS = int(os.environ.get("BANDOG_STORM_JOBS", "1500"))
KILLS = 10 + JOBS // 1_000
RESTART_EVERY = 4
"""Kills of workers between two of the server."""

SEED = os.environ.get("BANDOG_CRASH_SEED") or os.urandom(4).hex()
LEASE = 10.0
"""Outlives a restart of the server, so that what was lost was lost with a worker."""

HOSTS = 4


class Storm:
    """What is broken, and what is known of it."""

    def __init__(self, server: OwnServer, queue: bandog.Queue, run_worker: Callable[..., Running]) -> None:
        self.chance = random.Random(SEED)
        self.server = server
        self.queue = queue
        self.workers: list[Running] = []
        self.running: set[int] = set()
        self.killed: set[int] = set()
        """Processes that ran jobs and were killed, with the children of theirs."""
        self.restarts = 0
        self.admitted = 0
        self._run_worker = run_worker
        self._kinds = 0

    def host(self) -> None:
        """One more host comes."""
        how, options = KINDS[self._kinds % len(KINDS)]
        self._kinds += 1
        self.workers.append(self._run_worker(self.server.url, how, wait=False, lease=LEASE, poll=0.2, **options))

    def ingest(self, count: int) -> None:
        """Jobs come, whatever the server does: their producer repeats what it has no answer to."""
        numbers = range(self.admitted, self.admitted + count)
        jobs = [
            Job(
                job_id=f"job-{number}",
                max_attempts=1_000,
                payload={"do": "effect", "seconds": self.chance.choice([0, 0, 0.001, 0.05])},
            )
            for number in numbers
        ]

        def stored() -> bool:
            with suppress(bandog.StoreError):
                kinds = {admission.kind for admission in self.queue.ingest_many(jobs)}
                assert kinds <= {"admitted", "duplicate"}
                return True
            return False

        eventually(stored, "jobs are admitted")
        self.admitted += count

    def await_running(self, worker: Running) -> None:
        if worker.pid not in self.running:
            assert worker.child.hear() == "running"
            self.running.add(worker.pid)

    def kill_a_worker(self) -> None:
        victim = self.workers.pop(self.chance.randrange(len(self.workers)))
        # Mostly at work; now and then while it starts.
        if self.chance.random() < 0.8:
            self.await_running(victim)
        victim.wait_until(time.monotonic() + self.chance.random() ** 2 * 0.5)
        assert victim.child.process.poll() is None, f"it died by itself: {victim.child.finish()}"
        self.killed |= victim.children() | {victim.pid}
        victim.kill()

    def kill_the_server(self) -> None:
        """As a whole; or one of its processes, after which it throws all others out and recovers."""
        for worker in self.workers:
            self.await_running(worker)  # to open a queue on a server that is down is an error, at once
        self.restarts += 1
        if self.restarts % 2:
            self.server.kill()
            self.server.start()
            return
        started = "SELECT pid FROM pg_stat_activity WHERE application_name = 'bandog' ORDER BY random() LIMIT 1"
        found = eventually(lambda: self.server.execute(started), "somebody is connected")
        ((pid,),) = found
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

        def recovered() -> bool:
            with suppress(psycopg.OperationalError):
                return not self.server.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (pid,))
            return False

        eventually(recovered, "the server is back")


@pytest.fixture
def server() -> Iterator[OwnServer]:
    with OwnServer() as server:
        assert server.execute("SHOW fsync") == [("on",)]
        bandog.migrate(server.url)
        yield server


def read_all(queue: bandog.Queue) -> Iterator[bandog.JobRecord]:
    after = None
    while True:
        page = queue.jobs(after=after, limit=1_000)
        yield from page.jobs
        if page.next is None:
            return
        after = page.next


def pending(queue: bandog.Queue) -> bool:
    with suppress(bandog.StoreError):
        return queue.has_pending_work()
    return True


def test_kills_of_workers_and_of_the_server_lose_nothing_and_run_nothing_twice(
    server: OwnServer, run_worker: Callable[..., Running], journal: Journal
) -> None:
    print(f"BANDOG_CRASH_SEED={SEED} BANDOG_STORM_JOBS={JOBS}")
    begun = time.monotonic()
    with bandog.connect(server.url) as queue:
        storm = Storm(server, queue, run_worker)
        for _ in range(HOSTS - 1):
            storm.host()
        for turn in range(KILLS):
            storm.host()
            storm.ingest(JOBS // KILLS + (JOBS % KILLS if turn == 0 else 0))
            storm.kill_a_worker()
            if turn % RESTART_EVERY == RESTART_EVERY // 2:
                storm.kill_the_server()
        storm.host()
        over = time.monotonic()
        eventually(lambda: not pending(queue), "all jobs get their outcome", 2 * PATIENCE + JOBS / 100)
        drained = time.monotonic()
        stale = 0
        for worker in storm.workers:
            storm.await_running(worker)
            stale += worker.ask("stats")["stale"]
            worker.tell(signal.SIGTERM)
        for worker in storm.workers:
            assert worker.end(within=30) == 0
            assert "Traceback" not in worker.log
        recovered = check(storm, queue, journal, stale)
        ended = queue.stats(bound=JOBS + 1).outcomes
    assert storm.admitted == JOBS
    assert ended["completed"] == sum(ended.values()) == JOBS
    assert server.execute("SELECT count(*) FROM bandog.ready") == server.execute("SELECT count(*) FROM bandog.lease")
    print(
        f"{JOBS} jobs, {KILLS} kills of workers, {storm.restarts} of the server, {recovered} recoveries, {stale} stale;"
        f" {over - begun:.0f} s, and {drained - over:.0f} s until all were done"
    )
    # The run must have been what it claims to be.
    assert recovered > KILLS // 2
    assert storm.restarts >= 3


def check(storm: Storm, queue: bandog.Queue, journal: Journal, stale: int) -> int:
    """Every job has one outcome, from an executor that returned; how many claims were lost."""
    effects = Counter((note["job"], note["attempt"]) for note in journal.notes("effect"))
    begun = {(note["job"], note["attempt"]): note["pid"] for note in journal.notes("start")}
    per_job = Counter(job for job, _ in begun)
    assert set(effects.values()) == {1}, "one claim was carried out twice"
    assert effects.keys() <= begun.keys()
    seen: set[str] = set()
    recovered = unexplained = 0
    for record in read_all(queue):
        seen.add(record.job_id)
        assert record.outcome == Completed({"attempt": record.attempts}), record
        assert (record.job_id, record.attempts) in effects, "no success without its work"
        assert record.attempts == 1 + record.recoveries + record.given_back
        # Whatever was begun before its last attempt was lost; what was handed back had not been begun.
        assert per_job[record.job_id] <= 1 + record.recoveries
        recovered += record.recoveries
        earlier = [begun.get((record.job_id, attempt)) for attempt in range(1, record.attempts)]
        unexplained += len([pid for pid in earlier if pid is not None and pid not in storm.killed])
    assert seen == {f"job-{number}" for number in range(storm.admitted)}
    # A claim whose holder was not killed was lost only where its lease ended first, as its holder was told.
    assert unexplained <= stale
    return recovered
