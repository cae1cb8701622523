"""C43: what a worker does with running jobs when it is told to stop, and when it is then killed all the same.

What is finished within the grace is finished. What stops when it is told to is handed back, uncharged, and can be
claimed at once. What goes on keeps its lease, and is recovered when that ends; in a child process it is killed, and
recovered at once.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from processes import assert_sound, eventually

import bandog

if TYPE_CHECKING:
    from journal import Journal, Running

HOWS = ("threads", "coroutines", "processes")
GRACE = 3.0
LEASE = 4.0
SIGNAL_AT, KILL_AT = 0.5, 4.0
"""Seconds from when the jobs run. The kill comes half a second after the grace."""


def fill(queue: bandog.Queue, how: str) -> None:
    """Three jobs that run, and two that wait."""
    running = [("short", "sleep", 1), ("long", "obey", 10), ("deaf", "hang", 0)]
    jobs = [*running, ("next", "effect", 0), ("last", "effect", 0)]
    queue.ingest_many(
        [
            # One attempt: whatever were charged for could not be claimed again.
            bandog.Job(job_id=f"{how}-{name}", max_attempts=1, payload={"do": do, "seconds": seconds})
            for name, do, seconds in jobs
        ]
    )


def until(moment: float) -> None:
    eventually(lambda: time.monotonic() >= moment, "time passes")


def start_all(tmp_path: Path, run_worker: Callable[..., Running], journal: Journal) -> dict[str, Running]:
    workers: dict[str, Running] = {}
    for how in HOWS:
        workers[how] = run_worker(tmp_path / f"{how}.sqlite", how, grace=GRACE, lease=LEASE, concurrency=3)
    for how in HOWS:
        with bandog.connect(tmp_path / f"{how}.sqlite") as queue:
            # Once they have run these, child processes are up.
            warm = [bandog.Job(payload={"do": "sleep", "seconds": 0.3}) for _ in range(3)]
            queue.ingest_many(warm)
            eventually(lambda queue=queue: not queue.has_pending_work(), "it is warm")
    for how in HOWS:
        with bandog.connect(tmp_path / f"{how}.sqlite") as queue:
            fill(queue, how)
    journal.await_start(*(f"{how}-{name}" for how in HOWS for name in ("short", "long", "deaf")))
    return workers


def assert_first_two(queue: bandog.Queue, journal: Journal, how: str) -> None:
    """What was finished, what was handed back, and what was never claimed."""
    short, long = queue.read(f"{how}-short"), queue.read(f"{how}-long")
    assert (short.outcome, short.attempts) == (bandog.Completed(), 1)
    assert (long.state, long.attempts, long.given_back, long.recoveries) == ("queued", 1, 1, 0)
    if how != "coroutines":  # which are cancelled, and have left by then
        assert [note["reason"] for note in journal.notes("end", f"{how}-long")] == ["shutdown"]
    for name in ("next", "last"):
        record = queue.read(f"{how}-{name}")
        assert (record.state, record.attempts) == ("queued", 0), "it was claimed after the signal"
        assert journal.attempts(f"{how}-{name}") == []
    claims = {claim.job_id: claim for claim in queue.claim(limit=10)}
    assert sorted(claims) == sorted(f"{how}-{name}" for name in ("last", "long", "next"))
    assert claims[f"{how}-long"].attempt == 2
    for claim in claims.values():
        queue.acknowledge(claim)


def test_what_becomes_of_running_jobs(tmp_path: Path, run_worker: Callable[..., Running], journal: Journal) -> None:
    workers = start_all(tmp_path, run_worker, journal)
    until(time.monotonic() + SIGNAL_AT)
    for worker in workers.values():
        worker.tell(signal.SIGTERM)
    for how, worker in workers.items():
        assert worker.end(GRACE + 2) == 0
        with bandog.connect(tmp_path / f"{how}.sqlite") as queue:
            deaf = queue.read(f"{how}-deaf")
            if how == "processes":
                # Its only attempt was lost.
                assert deaf.outcome is not None
                assert (deaf.outcome.kind, deaf.attempts) == ("interrupted", 1)
                assert "exit code -9 after it was told to stop (shutdown)" in deaf.outcome.reason
            else:
                assert (deaf.state, deaf.attempts, deaf.given_back) == ("running", 1, 0)
            assert_first_two(queue, journal, how)


def test_a_kill_after_the_grace_changes_nothing_of_it(
    tmp_path: Path, run_worker: Callable[..., Running], journal: Journal
) -> None:
    workers = start_all(tmp_path, run_worker, journal)
    began = time.monotonic()
    until(began + SIGNAL_AT)
    for worker in workers.values():
        worker.tell(signal.SIGTERM)
    until(began + KILL_AT)
    for worker in workers.values():
        assert worker.child.process.poll() is None, "it gave its jobs less than the grace"
        worker.kill()
    for how in HOWS:
        with bandog.connect(tmp_path / f"{how}.sqlite") as queue:
            deaf = queue.read(f"{how}-deaf")
            assert (deaf.state, deaf.attempts, deaf.given_back) == ("running", 1, 0)
            assert_first_two(queue, journal, how)
    for how in HOWS:
        with bandog.connect(tmp_path / f"{how}.sqlite") as queue:
            # Its lease was renewed to the last, and now runs out.
            eventually(lambda queue=queue: queue.recover() and not queue.has_pending_work(), "its lease ends")
            deaf = queue.read(f"{how}-deaf")
            assert deaf.outcome is not None
            assert (deaf.outcome.kind, deaf.attempts) == ("interrupted", 1)
        assert_sound(tmp_path / f"{how}.sqlite")
