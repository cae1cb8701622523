"""A claim is kept whatever the executor does to the interpreter, and whoever locks the file for a while."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from processes import PATIENCE, Child, assert_sound, eventually, select

import bandog


def uptime() -> int:
    """The clock that the ends of leases are measured on, in microseconds."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


class Witness:
    """Looks from outside at the end of the only lease, and tries to take the job."""

    def __init__(self, path: Path, queue: bandog.Queue) -> None:
        self.connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
        self.queue = queue
        self.ends: list[int] = []

    def look(self) -> None:
        before = uptime()
        rows = self.connection.execute("SELECT lease_until FROM bandog_lease").fetchall()
        if not rows:
            return  # settled
        ((end,),) = rows
        assert end > before, f"the lease lapsed {before - end} µs ago"
        if not self.ends or self.ends[-1] != end:
            self.ends.append(end)

    def steal(self) -> None:
        """What every other worker does all the time."""
        assert self.queue.recover() == ((), ())
        assert self.queue.claim("thief") == []


@pytest.mark.parametrize("lease", [0.5, 1.0])
@pytest.mark.parametrize("how", ["spin", "call", "other"])
def test_a_lease_is_kept_while_the_interpreter_is_held(
    tmp_path: Path, start: Callable[..., Child], how: str, lease: float
) -> None:
    path = tmp_path / "jobs.sqlite"
    seconds = 4 * lease
    hog = start("hog.py", path, how, lease, seconds)
    assert hog.hear() == "running"
    with bandog.connect(path, busy_timeout=PATIENCE) as queue:
        witness = Witness(path, queue)
        with closing(witness.connection):
            hog.say("go")

            def over() -> bool:
                witness.look()
                witness.steal()
                return not hog.lines.empty()

            eventually(over, "the executor returns")
        facts = json.loads(hog.hear())
        hog.finish()
        assert facts == {"starts": 1, "attempt": 1, "aborted": None, "tick": "settled"}
        record = queue.read("kept")
        assert (record.outcome, record.attempts, record.recoveries) == (bandog.Completed(), 1, 0)
    gaps = [(after - before) / 1e6 for before, after in zip(witness.ends, witness.ends[1:], strict=False)]
    print(f"{how}, lease {lease} s: {len(witness.ends)} ends of the lease seen, largest step {max(gaps):.3f} s")
    assert len(witness.ends) > 4, "it was not renewed again and again"


def test_a_refused_renewal_is_tried_again_while_the_interpreter_is_held(
    tmp_path: Path, start: Callable[..., Child]
) -> None:
    """A lock makes renewals run into their timeout; saying so in a log must not wait for the interpreter."""
    path = tmp_path / "jobs.sqlite"
    hog = start("hog.py", path, "busy", 2.0, 8.0)
    assert hog.hear() == "running"
    with bandog.connect(path, busy_timeout=PATIENCE) as queue:
        witness = Witness(path, queue)
        with closing(witness.connection) as connection:
            hog.say("go")
            # Longer than a renewal may wait, shorter than the lease allows; then free for a while.
            while hog.lines.empty():
                connection.execute("BEGIN IMMEDIATE")
                free_at = time.monotonic() + 0.7
                eventually(lambda free_at=free_at: time.monotonic() > free_at, "the lock is held")
                connection.execute("COMMIT")
                lock_at = time.monotonic() + 0.3
                eventually(lambda lock_at=lock_at: time.monotonic() > lock_at, "the lock is free")
                witness.look()
                witness.steal()
        facts = json.loads(hog.hear())
        hog.finish()
    assert facts == {"starts": 1, "attempt": 1, "aborted": None, "tick": "settled"}


def keep_running(queue: bandog.Queue, lease: float, over: threading.Event) -> tuple[threading.Thread, list]:
    """A job that runs until it is told to stop or its claim is lost; what became of it is appended."""
    started = threading.Event()
    facts: list = []

    def execute(_job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> None:
        started.set()
        eventually(lambda: over.is_set() or cancel.aborted, "the end of the job")
        facts.append(cancel.reason)

    def tick() -> None:
        facts.append(bandog.Watchdog(queue, execute, lease=lease).tick().kind)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    assert started.wait(PATIENCE)
    return thread, facts


@pytest.mark.parametrize("timeout", [0.1, 60])
def test_a_renewal_goes_through_once_the_lock_is_free(tmp_path: Path, timeout: float) -> None:
    path = tmp_path / "jobs.sqlite"
    over = threading.Event()
    end = "SELECT lease_until FROM bandog_lease"
    with bandog.connect(path, busy_timeout=timeout) as queue:
        queue.enqueue(job_id="kept")
        thread, facts = keep_running(queue, 4.0, over)
        with closing(sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)) as other:
            for _ in range(2):
                other.execute("BEGIN IMMEDIATE")
                ((before,),) = other.execute(end).fetchall()
                # Past the moment at which it was due, a quarter of the lease before; well before its end.
                due = time.monotonic() + 1.8
                eventually(lambda due=due: time.monotonic() > due, "a renewal is due")
                assert other.execute(end).fetchall() == [(before,)]
                other.execute("COMMIT")
                eventually(lambda before=before: select(path, end)[0][0] > before, "the renewal goes through")
        over.set()
        thread.join(PATIENCE)
        assert facts == [None, "settled"]
        assert queue.read("kept").attempts == 1
    assert_sound(path)


def test_a_lock_that_outlasts_the_lease_costs_the_claim(tmp_path: Path) -> None:
    """Then the holder is told by its own clock, before anybody else can have the job."""
    path = tmp_path / "jobs.sqlite"
    with bandog.connect(path, busy_timeout=60) as queue:
        queue.enqueue(job_id="kept")
        with closing(sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)) as other:
            thread, facts = keep_running(queue, 0.5, threading.Event())
            other.execute("BEGIN IMMEDIATE")
            eventually(lambda: facts, "the executor is told")
            assert facts == ["lease_lost"]
            ((end,),) = other.execute("SELECT lease_until FROM bandog_lease").fetchall()
            assert end <= uptime()
            other.execute("COMMIT")
            thread.join(PATIENCE)
            assert facts == ["lease_lost", "stale"]
        recovered = queue.recover()
        record = queue.read("kept")
        assert (recovered[0] == ("kept",)) or record.recoveries == 1
        assert record.outcome is None
        (again,) = queue.claim()
        assert again.attempt == 2
        queue.acknowledge(again)
    assert_sound(path)
