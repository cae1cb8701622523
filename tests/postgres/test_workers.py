"""Workers of every kind on PostgreSQL: what their jobs come to, and how they end."""

from __future__ import annotations

import importlib.util
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from processes import PATIENCE, eventually

import bandog
from bandog import Cancelled, Completed, Failed, Interrupted, Job

if TYPE_CHECKING:
    from journal import Journal, Running

KINDS = ("threads", "coroutines", "async", "processes")
HOWS = ("threads", "coroutines", "processes")


def _bench() -> Any:
    """That of the tests on files: both folders have a file of this name, and only one of them can be imported."""
    path = Path(__file__).parent.parent / "worker" / "conftest.py"
    specification = importlib.util.spec_from_file_location("worker_fixtures", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.Bench


Bench = _bench()


@pytest.fixture(params=KINDS)
def bench(
    request: pytest.FixtureRequest, tmp_path: Path, database: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """Workers of one kind, and a queue in the test's database."""
    # Child processes would import the main module again, which is the test runner.
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    bench = Bench(request.param, tmp_path)
    bench.path = database.url
    bench.open()
    try:
        yield bench
    finally:
        for name in {line.split(" ")[0] for line in bench.noted()}:
            bench.let_go(name)
        bench.close()
        shutil.rmtree(tmp_path, ignore_errors=True)


def test_jobs_come_to_what_their_executors_say(bench: Any) -> None:
    payloads = [{"n": 1}, [1.5, None, "é"], "text"]
    for number, value in enumerate(payloads):
        bench.ingest("echoes", f"echo-{number}", value=value)
    bench.ingest("answers", "fails", answer="ValueError", budget={"max_attempts": 2, "backoff": bandog.Backoff(0, 0)})
    worker = bench.start(at_once=2)
    for number in range(len(payloads)):
        assert isinstance(bench.settled(f"echo-{number}").outcome, Completed)
    record = bench.settled("fails")
    assert isinstance(record.outcome, Failed)
    assert record.attempts == 2
    bench.await_counts(worker, completed=len(payloads), failed=1, retried=1)
    bench.await_nothing_held()


def test_a_running_job_is_cancelled_from_another_host(bench: Any, database: Any) -> None:
    bench.ingest("holds", "a", budget={"max_attempts": 5})
    bench.start(lease=1.0)
    bench.await_note("a", "started")
    assert database.queue().cancel("a", "from afar").kind == "requested"
    record = bench.settled("a")
    assert record.outcome == Cancelled("from afar")
    assert record.attempts == 1


@pytest.mark.parametrize("bench", ["processes"], indirect=True)
def test_a_child_that_dies_is_noticed_at_once_and_its_job_recovered(bench: Any) -> None:
    bench.ingest("dies", "a", code=137, times=1, budget={"max_attempts": 3})
    bench.ingest("dies", "b", times=99)
    worker = bench.start(lease=120.0)
    record = bench.settled("a")
    assert record.outcome == Completed("lived")
    assert (record.attempts, record.recoveries) == (2, 1)
    assert isinstance(bench.settled("b").outcome, Interrupted)
    bench.await_counts(worker, recovered=2, interrupted=1, completed=1)


def test_a_worker_drains_a_burst_and_holds_nothing(bench: Any) -> None:
    bench.queue.ingest_many([bench.job("no_op", f"{number}") for number in range(300)])
    worker = bench.burst(at_once=4)
    assert worker.stats().completed == 300
    assert bench.queue.stats(bound=300).outcomes["completed"] == 300
    bench.await_nothing_held()


def test_several_hosts_share_the_work_and_each_job_has_one_outcome(
    database: Any, run_worker: Callable[..., Running], journal: Journal
) -> None:
    queue = database.queue()
    jobs = 2_000
    queue.ingest_many(Job(job_id=f"job-{number}", payload={"do": "effect"}) for number in range(jobs))
    workers = [run_worker(database.url, how, concurrency=4, lease=30, poll=1.0, wait=False) for how in (*HOWS, HOWS[0])]
    eventually(lambda: not queue.has_pending_work(), "all jobs get their outcome", 2 * PATIENCE)
    for worker in workers:
        assert worker.child.hear() == "running"
        worker.tell(signal.SIGTERM)
    for worker in workers:
        assert worker.end(within=30) == 0
        assert "Traceback" not in worker.log
        assert "WARNING" not in worker.log
    effects = Counter(note["job"] for note in journal.notes("effect"))
    assert len(effects) == jobs
    assert set(effects.values()) == {1}
    assert queue.stats(bound=jobs).outcomes["completed"] == jobs
    assert all(record.attempts == 1 for record in queue.jobs(limit=1_000).jobs)


@pytest.mark.parametrize("how", HOWS)
def test_a_killed_worker_gives_its_jobs_up_when_their_leases_end(
    database: Any, run_worker: Callable[..., Running], journal: Journal, how: str
) -> None:
    queue = database.queue()
    queue.ingest_many(
        Job(job_id=f"job-{number}", payload={"do": "once"}, max_recoveries=2, priority=1) for number in range(3)
    )
    lease = 1.5
    victim = run_worker(database.url, how, concurrency=3, lease=lease, poll=0.2)
    journal.await_start("job-0", "job-1", "job-2")
    heir = run_worker(database.url, "threads", concurrency=3, lease=lease, poll=0.2)
    queue.enqueue({"do": "effect"}, job_id="other")
    eventually(lambda: queue.read("other").state == "settled", "the other one is at work")
    victim.kill()
    killed_at = time.monotonic()
    eventually(lambda: all(queue.read(f"job-{number}").state == "settled" for number in range(3)), "all are recovered")
    assert time.monotonic() - killed_at < lease + 3
    for number in range(3):
        record = queue.read(f"job-{number}")
        assert (record.outcome, record.attempts, record.recoveries) == (Completed(), 2, 1)
        assert journal.attempts(f"job-{number}") == [1, 2]
    heir.tell(signal.SIGTERM)
    assert heir.end(within=20) == 0


@pytest.mark.parametrize("how", HOWS)
def test_a_worker_that_is_told_to_stop_hands_back_what_it_does_not_finish(
    database: Any, run_worker: Callable[..., Running], journal: Journal, how: str
) -> None:
    """C43: one job ends within the grace, one heeds its token, one is deaf to it."""
    queue = database.queue()
    seconds = {"short": ("sleep", 1.0), "obeys": ("obey", PATIENCE), "deaf": ("hang", PATIENCE)}
    for job_id, (do, took) in seconds.items():
        queue.enqueue({"do": do, "seconds": took}, job_id=job_id)
    worker = run_worker(database.url, how, concurrency=3, lease=20, grace=2.0, poll=0.2)
    journal.await_start(*seconds)
    worker.tell(signal.SIGTERM)
    eventually(lambda: worker.ask("stats")["state"] == "stopping", "it has heard")
    queue.enqueue({"do": "effect"}, job_id="late")
    assert worker.end(within=2 + 3) == 0
    assert queue.read("late").state == "queued", "nothing is claimed after the signal"
    assert queue.read("short").outcome == Completed()
    # Handed back, uncharged, and claimable at once.
    record = queue.read("obeys")
    assert (record.state, record.attempts, record.given_back) == ("queued", 1, 1)
    record = queue.read("deaf")
    if how == "processes":
        # The child was killed for real.
        assert (record.state, record.attempts, record.recoveries) == ("queued", 1, 1)
    else:
        # It may still be at work, for all that the store knows.
        assert (record.state, record.attempts, record.recoveries) == ("running", 1, 0)
        assert "job 'deaf' did not stop" in worker.log
    claimed = {claim.job_id for claim in queue.claim(limit=9)}
    assert claimed == {"late", "obeys"} | ({"deaf"} if how == "processes" else set())


def test_forks_beside_a_running_worker_leave_it_alone(database: Any, start: Callable[..., Any]) -> None:
    """C27: the child exits, is refused, or works on links of its own; the parent's claims go on being renewed."""
    forker = start("forking_worker.py", database.url, 60)
    assert forker.hear() == "forking"
    queue = database.queue()
    lost: list[str] = []

    def over() -> bool:
        recovered, interrupted = queue.recover()
        lost.extend([*recovered, *interrupted])
        return not forker.lines.empty()

    eventually(over, "all forks are through", patience=120)
    assert forker.finish()[-1] == "done"
    assert lost == []
    assert "Traceback" not in forker.complaint
    kept = queue.read("kept")
    assert (kept.outcome, kept.attempts) == (Completed("kept"), 1)
    # One from the parent per fork, and one from each child that connected anew.
    assert queue.stats(bound=1_000).outcomes["completed"] == 1 + 60 + 20
