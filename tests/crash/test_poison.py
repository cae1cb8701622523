"""C07: a job that kills its process is started as often as it may be, and then it is a dead letter.

A supervisor starts the pool again each time; what else was running is blamed for one attempt, what waited for none.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fix_target import FileTarget, Target
from processes import PATIENCE, Child

import bandog

THREADS = 4


class Supervisor:
    """Starts the pool until it ends well."""

    def __init__(self, start: Callable[..., Child], target: Target, folder: Path, threads: int = THREADS) -> None:
        self.start = start
        self.target, self.log = target, folder / "starts.txt"
        self.threads = threads
        self.log.touch()

    def run_once(self, mode: str) -> int:
        """The exit code of one pool."""
        pool = self.start("pool.py", self.target.url, self.log, mode, self.threads)
        code = pool.process.wait(PATIENCE)
        pool.join()
        assert code in (0, 137), pool.complaint
        return code

    def starts(self, job_id: str) -> list[int]:
        """The attempts of a job that were started, in order."""
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [int(attempt) for job, attempt in lines if job == job_id]


@pytest.fixture
def supervisor(target: Target, tmp_path: Path, start: Callable[..., Child]) -> Supervisor:
    supervisor = Supervisor(start, target, tmp_path)
    with supervisor.target.connect() as queue:
        queue.enqueue(job_id="poison", priority=9, max_attempts=3)
        queue.ingest_many(
            [
                *(
                    bandog.Job(job_id=f"neighbour-{number}", priority=5, max_attempts=2)
                    for number in range(THREADS - 1)
                ),
                *(bandog.Job(job_id=f"waiting-{number}") for number in range(20)),
            ]
        )
    return supervisor


def test_it_is_started_three_times_and_then_a_dead_letter_that_says_why(supervisor: Supervisor) -> None:
    codes = [supervisor.run_once("beside")]
    while codes[-1] != 0:
        assert len(codes) < 5, "it takes down workers for ever"
        codes.append(supervisor.run_once("alone"))
    assert codes == [137, 137, 137, 0]
    assert supervisor.starts("poison") == [1, 2, 3]
    with supervisor.target.connect() as queue:
        (dead,) = queue.dead_letters()
        assert (dead.job_id, dead.attempts, dead.outcome.kind) == ("poison", 3, "interrupted")
        assert "worker" in dead.outcome.reason
        assert "lost" in dead.outcome.reason
        # What ran beside it the first time was blamed for that once, though it died thrice.
        for number in range(THREADS - 1):
            record = queue.read(f"neighbour-{number}")
            assert (record.outcome, record.attempts, record.recoveries) == (bandog.Completed(), 2, 1)
        for number in range(20):
            record = queue.read(f"waiting-{number}")
            assert (record.outcome, record.attempts, record.recoveries) == (bandog.Completed(), 1, 0)
        assert not queue.has_pending_work()
    supervisor.target.assert_sound()


def test_a_cancellation_during_the_loop_stops_it_at_the_next_claim(supervisor: Supervisor) -> None:
    assert supervisor.run_once("beside") == 137
    with supervisor.target.connect() as queue:
        assert queue.cancel("poison", "it kills the workers").kind in {"requested", "cancelled"}
    assert supervisor.run_once("alone") == 0
    assert supervisor.starts("poison") == [1]
    with supervisor.target.connect() as queue:
        record = queue.read("poison")
        assert (record.state, record.attempts) == ("settled", 1)
        assert record.outcome.kind in {"interrupted", "cancelled"}
        assert {queue.read(f"neighbour-{number}").outcome for number in range(3)} == {bandog.Completed()}
    supervisor.target.assert_sound()


def test_a_dead_letter_that_was_requeued_kills_as_often_again_and_no_more(supervisor: Supervisor) -> None:
    codes = [supervisor.run_once("beside"), *(supervisor.run_once("alone") for _ in range(3))]
    with supervisor.target.connect() as queue:
        queue.requeue("poison")
    codes += [supervisor.run_once("alone") for _ in range(4)]
    assert codes == [137, 137, 137, 0] * 2
    assert supervisor.starts("poison") == [1, 2, 3, 4, 5, 6]


def test_under_a_liveness_probe_it_is_the_same_without_waiting(tmp_path: Path, start: Callable[..., Child]) -> None:
    supervisor = Supervisor(start, FileTarget(tmp_path / "jobs.sqlite"), tmp_path, threads=1)
    with supervisor.target.connect() as queue:
        queue.ingest_many([bandog.Job(job_id="poison", priority=9, max_attempts=3), bandog.Job(job_id="waiting")])
    assert [supervisor.run_once("alone") for _ in range(4)] == [137, 137, 137, 0]
    assert supervisor.starts("poison") == [1, 2, 3]
    assert supervisor.starts("waiting") == [1]
    with supervisor.target.connect() as queue:
        (dead,) = queue.dead_letters()
        assert (dead.job_id, dead.outcome.kind) == ("poison", "interrupted")
        assert "lost" in dead.outcome.reason
        assert "probe" in dead.outcome.reason
    supervisor.target.assert_sound()
