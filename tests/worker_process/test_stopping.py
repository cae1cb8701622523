"""C42: a worker that is told to stop is gone within its grace and two seconds, and says what it left behind.

Each situation is tried with threads, coroutines and processes at once: nearly all of it is waiting.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from processes import PATIENCE, assert_sound, eventually

import bandog

if TYPE_CHECKING:
    from journal import Journal, Running
    from processes import Child

HOWS = ("threads", "coroutines", "processes")
GRACE = 1.0
PROMISE = GRACE + 2.0
PROMISE_SECOND = 1.0
"""Seconds from a second signal."""

LEASE = 3.0
JOBS = 50
TURNS = int(os.environ.get("BANDOG_STARTS", "12"))


class Site:
    """One worker with a file of its own."""

    def __init__(self, folder: Path, run_worker: Callable[..., Running], how: str, **options: Any) -> None:
        self.how = how
        self.path = folder / f"{how}.sqlite"
        with bandog.connect(self.path):
            pass
        options = {"grace": GRACE, "concurrency": 2, "lease": LEASE, **options}
        self.worker = run_worker(self.path, how, **options)

    def job(self, name: str) -> str:
        return f"{self.how}-{name}"

    def enqueue(self, name: str, do: str, seconds: float = PATIENCE) -> None:
        with bandog.connect(self.path) as queue:
            queue.enqueue({"do": do, "seconds": seconds}, job_id=self.job(name))

    def read(self, name: str) -> bandog.JobRecord:
        with bandog.connect(self.path) as queue:
            return queue.read(self.job(name))

    def assert_abandoned(self, name: str) -> None:
        """What still ran keeps its lease, and is recovered within its budget; a child was killed for real."""
        if self.how == "processes":
            record = self.read(name)
            assert (record.state, record.attempts, record.recoveries) == ("queued", 1, 1)
            assert f"the process of job {self.job(name)!r} died" in self.worker.log
            return
        assert f"job {self.job(name)!r} did not stop" in self.worker.log
        with bandog.connect(self.path) as queue:
            record = queue.read(self.job(name))
            assert (record.state, record.attempts, record.recoveries) == ("running", 1, 0)
            (again,) = eventually(queue.claim, "its lease ends", LEASE + PATIENCE)
            assert (again.job_id, again.attempt) == (self.job(name), 2)
            queue.acknowledge(again)


@pytest.fixture
def sites(tmp_path: Path, run_worker: Callable[..., Running]) -> Callable[..., list[Site]]:
    def make(hows: tuple[str, ...] = HOWS, **options: Any) -> list[Site]:
        return [Site(tmp_path, run_worker, how, **options) for how in hows]

    return make


@pytest.fixture
def full(tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with jobs that stop when they are told to."""
    monkeypatch.setenv("BANDOG_TEST_JOURNAL", str(journal.path))
    path = tmp_path / "jobs.sqlite"
    with bandog.connect(path) as queue:
        queue.ingest_many([bandog.Job(payload={"do": "obey", "seconds": PATIENCE}) for _ in range(JOBS)])
    return path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """As another process that has begun to write and does not go on."""
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
    finally:
        connection.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_stops_at_once(sites: Callable[..., list[Site]], number: signal.Signals) -> None:
    for site in sites(grace=PATIENCE):
        site.worker.tell(number)
        assert site.worker.end(within=2) == 0
        assert site.worker.child.rest() == ["stopped"]
        assert "Traceback" not in site.worker.log


def test_a_job_that_does_not_stop_is_abandoned(sites: Callable[..., list[Site]], journal: Journal) -> None:
    made = sites()
    for site in made:
        site.enqueue("deaf", "hang")
    journal.await_start(*(site.job("deaf") for site in made))
    for site in made:
        site.worker.tell(signal.SIGTERM)
    for site in made:
        assert site.worker.end(PROMISE) == 0
        assert site.worker.child.rest() == ["stopped"]
        assert "Traceback" not in site.worker.log
    # A coroutine is cancelled, and once.
    assert [note["job"] for note in journal.notes("swallowed")] == ["coroutines-deaf"]
    for site in made:
        site.assert_abandoned("deaf")
        assert_sound(site.path)


def test_a_thread_of_the_loops_own_does_not_hold_it_up(sites: Callable[..., list[Site]], journal: Journal) -> None:
    (site,) = sites(("coroutines",))
    site.enqueue("in-a-thread", "thread")
    journal.await_start(site.job("in-a-thread"))
    site.worker.tell(signal.SIGTERM)
    assert site.worker.end(PROMISE) == 0
    assert site.worker.child.rest() == ["stopped"]
    # The coroutine itself was cancelled, so that the job is handed back.
    record = site.read("in-a-thread")
    assert (record.state, record.attempts, record.given_back) == ("queued", 1, 1)


def test_a_child_that_keeps_its_interpreter_is_killed(sites: Callable[..., list[Site]], journal: Journal) -> None:
    (site,) = sites(("processes",))
    with bandog.connect(site.path) as queue:
        payload = {"do": "long_call", "digits": 1_000_000, "seconds": PATIENCE}
        queue.enqueue(payload, job_id=site.job("deaf"))
    journal.await_start(site.job("deaf"))
    site.worker.tell(signal.SIGTERM)
    assert site.worker.end(PROMISE) == 0
    site.assert_abandoned("deaf")


def test_a_store_that_is_locked_does_not_hold_it_up(sites: Callable[..., list[Site]], journal: Journal) -> None:
    made = sites()
    for site in made:
        site.enqueue("done", "sleep", 1.5)
        site.enqueue("deaf", "hang")
    journal.await_start(*(site.job(name) for site in made for name in ("done", "deaf")))
    with ExitStack() as locks:
        for site in made:
            locks.enter_context(locked(site.path))
        for site in made:
            site.worker.tell(signal.SIGTERM)
        for site in made:
            assert site.worker.end(PROMISE) == 0
            assert "1 reports were not recorded" in site.worker.log or "2 reports were not recorded" in site.worker.log
    for site in made:
        # Nobody could be told that it is done.
        assert site.read("done").state == "running"
        with bandog.connect(site.path) as queue:
            # Both are recovered once their leases end.
            claims: dict[str, bandog.ClaimedJob] = {}

            def claimed(queue: bandog.Queue = queue, claims: dict[str, bandog.ClaimedJob] = claims) -> bool:
                claims.update({claim.job_id: claim for claim in queue.claim(limit=2)})
                return len(claims) == 2

            eventually(claimed, "the leases end")
            assert {claim.attempt for claim in claims.values()} == {2}
        assert_sound(site.path)


def test_a_file_that_was_deleted_does_not_hold_it_up(sites: Callable[..., list[Site]], journal: Journal) -> None:
    made = sites()
    for site in made:
        site.enqueue("done", "sleep", 0.5)
        site.enqueue("deaf", "hang")
    journal.await_start(*(site.job(name) for site in made for name in ("done", "deaf")))
    for site in made:
        site.path.unlink()
    for site in made:
        site.worker.tell(signal.SIGTERM)
    for site in made:
        assert site.worker.end(PROMISE) == 0
        assert "deleted or replaced" in site.worker.log
        assert not site.path.exists(), "it must not come back as an empty one"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("is_locked", [False, True])
def test_a_second_signal_ends_it_within_a_second(
    sites: Callable[..., list[Site]], journal: Journal, number: signal.Signals, code: int, is_locked: bool
) -> None:
    made = sites(grace=PATIENCE)
    for site in made:
        site.enqueue("deaf", "hang")
        site.enqueue("obeys", "obey")
    journal.await_start(*(site.job(name) for site in made for name in ("deaf", "obeys")))
    with ExitStack() as locks:
        for site in made:
            if is_locked:
                locks.enter_context(locked(site.path))
            site.worker.tell(signal.SIGTERM)
        for site in made:
            # It goes on: there is time.
            eventually(lambda site=site: site.worker.ask("stats")["state"] == "stopping", "it has heard the first one")
        for site in made:
            site.worker.tell(number)
        for site in made:
            assert site.worker.end(PROMISE_SECOND) == code
            if site.how != "processes":
                assert f"job {site.job('deaf')!r} did not stop" in site.worker.log
    for site in made:
        assert site.read("deaf").outcome is None
        assert_sound(site.path)


def test_a_second_signal_ends_a_loop_that_is_blocked(sites: Callable[..., list[Site]], journal: Journal) -> None:
    """The first one cannot be heeded on a loop that does not turn."""
    (site,) = sites(("coroutines",), grace=PATIENCE)
    site.enqueue("blocks", "block")
    journal.await_start(site.job("blocks"))
    site.worker.tell(signal.SIGTERM)
    heard = time.monotonic() + 0.2
    eventually(lambda: time.monotonic() > heard, "the two are not taken as one")
    site.worker.tell(signal.SIGTERM)
    assert site.worker.end(PROMISE_SECOND) == 143


def assert_nothing_lost(path: Path) -> None:
    """All that was claimed was handed back, uncharged."""
    with bandog.connect(path) as queue:
        stats = queue.stats().queues["default"]
        assert (stats.queued, stats.running) == (JOBS, 0)
        assert all(record.attempts == record.given_back for record in queue.jobs(limit=JOBS))
    assert_sound(path)


@pytest.mark.parametrize("moment", ["before", "inside"])
@pytest.mark.parametrize("how", HOWS)
def test_a_stop_during_start_up_is_not_lost(
    full: Path, start: Callable[..., Child], journal: Journal, how: str, moment: str
) -> None:
    assert start("starting.py", full, how, moment).finish() == ["stopped"]
    assert_nothing_lost(full)
    if moment == "before":
        assert journal.notes("start") == []


def test_a_signal_at_any_moment_of_the_start_loses_nothing(full: Path, start: Callable[..., Child]) -> None:
    """Before the worker can handle it, it simply ends the process."""
    codes = Counter()
    for turn in range(TURNS):
        child = start("starting.py", full, HOWS[turn % len(HOWS)], turn * 0.1 / TURNS)
        code = child.process.wait(PATIENCE)
        said = child.rest()
        assert "Traceback" not in child.complaint
        assert (code, said) in [(0, ["stopped"]), (-signal.SIGTERM, [])]
        codes[code] += 1
        assert_nothing_lost(full)
    assert codes[0] >= TURNS // 2
