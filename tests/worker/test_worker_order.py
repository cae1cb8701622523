"""The order in which a worker runs jobs: priority first, also for what was recovered or retried (C53)."""

import itertools
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from steps import wait_until

import bandog
from bandog import Backoff, Completed, Failed, Job
from bandog.testing import FakeClock

pytestmark = pytest.mark.kinds("threads", "coroutines", "async")


class Recorder:
    """An executor that keeps the order of starts and may have more to say about a job."""

    def __init__(self, bench, answer=None):
        self.started = []
        self._answer = answer
        self._lock = threading.Lock()
        self.execute = self._async if bench.is_async else self._plain

    def _plain(self, job, token):
        with self._lock:
            self.started.append(job.job_id)
        return self._answer(job, token) if self._answer else None

    async def _async(self, job, token):
        return self._plain(job, token)


@pytest.mark.parametrize("concurrency", [1, 50])
def test_a_recovered_job_of_high_priority_gets_the_next_free_slot(bench, concurrency):
    bench.queue.close()
    clock = FakeClock()
    bench.open(clock=clock)
    bench.queue.ingest(Job(job_id="urgent", priority=9, max_recoveries=1))
    (claim,) = bench.queue.claim(lease=1.0)
    assert claim.job_id == "urgent"
    numbers = itertools.count()
    done = itertools.count(1)

    def more(_job=None, _token=None):
        # A steady stream: each job brings the next, so that there is always fresh work.
        bench_queue.ingest(Job(job_id=f"fresh-{next(numbers)}"))
        count = next(done)
        if count == 100 + 2 * concurrency:
            clock.advance(2)  # the claim is lost
        elif count == 450:
            worker.stop(wait=False)

    with bandog.connect(bench.path, clock=clock) as bench_queue:
        recorder = Recorder(bench, more)
        for _ in range(2 * concurrency):
            more()
        worker = bench.worker(recorder.execute, at_once=concurrency, worker="w")
        bench.begin(worker)
        wait_until(lambda: worker.stats().state == "stopped", "it has run hundreds of jobs")
    place = recorder.started.index("urgent")
    # It is due from about the 100th start on. Those that were claimed by then start before it, and no more than one
    # claim brings.
    assert 100 <= place <= 100 + 4 * concurrency
    assert bench.queue.read("urgent").recoveries == 1


@pytest.mark.parametrize("concurrency", [1, 50])
def test_a_job_that_fails_at_once_again_and_again_does_not_hold_up_its_neighbours(bench, concurrency):
    failing = Job(job_id="failing", max_attempts=20, backoff=Backoff(0.0, 0.0))
    recorder = Recorder(bench, lambda job, _token: Failed("again") if job.job_id == "failing" else None)
    bench.queue.ingest(failing)
    bench.queue.ingest_many([Job(job_id=f"job-{number:03}") for number in range(200)])
    bench.burst(recorder.execute, at_once=concurrency)
    counts = Counter(recorder.started)
    assert counts["failing"] == 20
    assert set(counts.values()) == {1, 20}
    assert bench.queue.read("failing").outcome == Failed("again")
    if concurrency == 1:
        # A retry is due after those that wait already: every neighbour runs before the second attempt.
        neighbours = [job_id for job_id in recorder.started if job_id != "failing"]
        assert neighbours == sorted(neighbours)
        assert recorder.started[:201] == ["failing", *neighbours]
        assert recorder.started[201:] == ["failing"] * 19


@pytest.mark.parametrize("concurrency", [1, 50])
def test_the_lowest_priority_runs_once_no_higher_work_is_due_and_may_starve_until_then(bench, concurrency):
    """There is no ageing: priority is strict."""
    numbers = itertools.count()

    def more(job=None, _token=None):
        if (job is None or job.job_id != "low") and (number := next(numbers)) < 200:
            feeder.ingest(Job(job_id=f"high-{number:03}", priority=5))

    with bandog.connect(bench.path) as feeder:
        recorder = Recorder(bench, more)
        feeder.ingest(Job(job_id="low", priority=-5))
        for _ in range(2 * concurrency):
            more()
        bench.burst(recorder.execute, at_once=concurrency)
    assert bench.queue.read("low").outcome == Completed()
    assert recorder.started.index("low") >= 200 - concurrency
    assert sorted(recorder.started) == sorted(["low", *(f"high-{number:03}" for number in range(200))])


def mixed_jobs():
    """Priorities and dates in a stable disorder, with ties."""
    for number in range(120):
        yield Job(job_id=f"job-{number:03}", priority=(number * 7) % 5, lane=f"lane-{number % 3}")


def test_the_order_is_the_same_for_claims_of_one_and_of_fifty(bench):
    orders = []
    for prefetch in (0, 49):
        recorder = Recorder(bench)
        for job in mixed_jobs():
            bench.queue.ingest(job)
        bench.burst(recorder.execute, at_once=1, prefetch=prefetch)
        orders.append(recorder.started)
        bench.queue.purge(older_than=0.0, outcomes=["completed"])
    assert orders[0] == orders[1]
    assert orders[0] == [job.job_id for job in sorted(mixed_jobs(), key=lambda job: -job.priority)]


def test_within_a_priority_the_earlier_date_runs_first(bench):
    recorder = Recorder(bench)
    now = datetime.now(UTC)
    ages = [3, 9, 1, 7, 5]
    for age in ages:
        bench.queue.ingest(Job(job_id=f"age-{age}", available_at=now - timedelta(minutes=age)))
    bench.burst(recorder.execute, at_once=1)
    assert recorder.started == [f"age-{age}" for age in sorted(ages, reverse=True)]


def test_only_the_subscribed_queues_are_run(bench):
    for name in ("a", "b", "c"):
        bench.queue.ingest(Job(job_id=name, queue=name))
    recorder = Recorder(bench)
    bench.burst(recorder.execute, queues=["a", "c"])
    assert sorted(recorder.started) == ["a", "c"]
    assert bench.queue.read("b").attempts == 0
    bench.burst(recorder.execute, queues="b")
    assert recorder.started[2:] == ["b"]
