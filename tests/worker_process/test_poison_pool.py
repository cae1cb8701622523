"""C07 through a worker: a job that kills its process is started as often as it may be, and then it is a dead letter.

A supervisor starts the worker again each time. With child processes the worker lives on, and knows at once.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from processes import assert_sound, eventually

import bandog

if TYPE_CHECKING:
    from journal import Journal, Running

NEIGHBOURS = [f"neighbour-{number}" for number in range(3)]
WAITING = [f"waiting-{number}" for number in range(20)]
OPTIONS = {"concurrency": 1 + len(NEIGHBOURS), "lease": 0.5, "poll": 0.2, "grace": 5}


def fill(path: Path, how: str) -> None:
    """One job that kills, three that run beside it the first time, and twenty that wait."""
    poison = {"do": "die", "beside": NEIGHBOURS, "others": len(NEIGHBOURS) + len(WAITING), "queue": str(path)}
    # In processes of their own they are not to be killed, and end by themselves.
    neighbour = {"do": "sleep", "seconds": 1} if how == "processes" else {"do": "once"}
    with bandog.connect(path) as queue:
        queue.enqueue(poison, job_id="poison", priority=9, max_attempts=3)
        queue.ingest_many(
            [
                *(bandog.Job(job_id=job, priority=5, max_attempts=2, payload=neighbour) for job in NEIGHBOURS),
                *(bandog.Job(job_id=job, payload={"do": "effect"}) for job in WAITING),
            ]
        )


def supervise(path: Path, run_worker: Callable[..., Running], how: str) -> list[int]:
    """Start workers until nothing is left to do; their exit codes."""
    codes: list[int] = []
    with bandog.connect(path) as queue:
        while True:
            assert len(codes) < 5, "it takes down workers for ever"
            worker = run_worker(path, how, wait=False, **OPTIONS)

            def over(worker: Running = worker) -> bool:
                return worker.child.process.poll() is not None or not queue.has_pending_work()

            eventually(over, "the worker dies, or is done")
            if worker.child.process.poll() is None:
                worker.tell(signal.SIGTERM)
            codes.append(worker.end())
            if codes[-1] == 0:
                return codes


def assert_dead_letter(path: Path) -> None:
    with bandog.connect(path) as queue:
        (dead,) = queue.dead_letters()
        assert (dead.job_id, dead.attempts, dead.outcome.kind) == ("poison", 3, "interrupted")
        assert "worker" in dead.outcome.reason
        assert "lost" in dead.outcome.reason
        assert not queue.has_pending_work()
    assert_sound(path)


@pytest.mark.parametrize("how", ["threads", "coroutines"])
def test_it_takes_three_workers_down_and_no_more(
    tmp_path: Path, run_worker: Callable[..., Running], journal: Journal, how: str
) -> None:
    path = tmp_path / "jobs.sqlite"
    fill(path, how)
    assert supervise(path, run_worker, how) == [137, 137, 137, 0]
    assert journal.attempts("poison") == [1, 2, 3]
    assert_dead_letter(path)
    with bandog.connect(path) as queue:
        for job in NEIGHBOURS:
            record = queue.read(job)
            assert (record.outcome, record.attempts, record.recoveries) == (bandog.Completed(), 2, 1)
        for job in WAITING:
            record = queue.read(job)
            assert (record.outcome.kind, record.attempts, record.recoveries) == ("completed", 1, 0)


def test_it_kills_three_children_of_a_worker_that_lives_on(
    tmp_path: Path, run_worker: Callable[..., Running], journal: Journal
) -> None:
    path = tmp_path / "jobs.sqlite"
    fill(path, "processes")
    # Nothing here may wait for the end of a lease.
    worker = run_worker(path, "processes", **(OPTIONS | {"lease": 600}))
    with bandog.connect(path) as queue:
        eventually(lambda: not queue.has_pending_work(), "all is done")
        # Counted after it was recorded.
        eventually(lambda: worker.ask("stats")["interrupted"] == 1, "it is counted")
        stats = worker.ask("stats")
        assert (stats["is_running"], stats["recovered"], stats["completed"]) == (True, 2, 23)
        worker.tell(signal.SIGTERM)
        assert worker.end() == 0
        assert worker.log.count("the process of job 'poison' died with exit code 137") == 3
        assert journal.attempts("poison") == [1, 2, 3]
        assert len({note["pid"] for note in journal.notes("start", "poison")}) == 3
        for job in [*NEIGHBOURS, *WAITING]:
            record = queue.read(job)
            assert (record.outcome.kind, record.attempts, record.recoveries) == ("completed", 1, 0)
        assert "exit code 137" in queue.read("poison").outcome.reason
    assert_dead_letter(path)


@pytest.mark.parametrize("how", ["threads", "processes"])
def test_a_cancellation_during_the_loop_stops_it(
    tmp_path: Path, run_worker: Callable[..., Running], journal: Journal, how: str
) -> None:
    """At the next claim; where the second one runs already, in a child that does not listen, that one is the last."""
    path = tmp_path / "jobs.sqlite"
    fill(path, how)
    if how == "threads":
        worker = run_worker(path, how, wait=False, **OPTIONS)
        assert worker.end() == 137
        with bandog.connect(path) as queue:
            assert queue.cancel("poison", "it kills the workers").kind in {"requested", "cancelled"}
        assert supervise(path, run_worker, how) == [0]
        assert journal.attempts("poison") == [1]
    else:
        worker = run_worker(path, how, lease=600, kill_after=0.1, concurrency=4)
        with bandog.connect(path) as queue:
            # It waits for the others there, and one of those waits for this.
            queue.enqueue({"do": "once"}, job_id="slow", priority=7)
            eventually(lambda: journal.attempts("poison") == [1, 2], "the second attempt runs")
            queue.cancel("poison", "it kills the workers")
            eventually(lambda: queue.read("poison").state == "settled", "it is killed, and not started again")
            eventually(lambda: worker.ask("stats")["interrupted"] == 1, "it is counted")
        assert journal.attempts("poison") == [1, 2]
        worker.kill()
    with bandog.connect(path) as queue:
        record = queue.read("poison")
        assert record.state == "settled"
        assert record.outcome.kind in {"interrupted", "cancelled"}
    assert_sound(path)
