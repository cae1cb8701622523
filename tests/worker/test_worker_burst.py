"""A burst: run until nothing is due, and return."""

import asyncio
import threading
import time
from contextlib import closing

import pytest
from steps import Background, wait_until

import bandog
from bandog import Backoff, Completed, Job


def test_it_drains_and_returns(bench):
    bench.queue.ingest_many([bench.job("no_op", f"job-{number}") for number in range(50)])
    worker = bench.burst(at_once=3)
    assert not bench.queue.has_pending_work()
    stats = worker.stats()
    assert (stats.completed, stats.claimed, stats.state, stats.unrecorded) == (50, 50, "stopped", 0)


def test_with_nothing_to_do_it_returns(bench):
    assert bench.burst().stats().claimed == 0


def following(job):
    """The job that a job brings, if any."""
    return [Job(job_id=f"job-{job.payload - 1}", payload=job.payload - 1)] if job.payload > 0 else []


@pytest.mark.kinds("threads", "coroutines", "async")  # a child process has no queue
@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("prefetch", [0, 10])
def test_work_that_its_jobs_bring_is_done_too(bench, prefetch, at_once):
    def in_thread(job, _token):
        for new in following(job):
            bench.queue.ingest(new)

    async def in_loop(job, _token):
        for new in following(job):
            await (bench.queue.asynchronous.ingest(new) if bench.thread else asyncio.to_thread(bench.queue.ingest, new))

    bench.queue.ingest(Job(job_id="job-40", payload=40))
    bench.burst(in_loop if bench.is_async else in_thread, prefetch=prefetch, at_once=at_once)
    assert bench.queue.read("job-0").outcome == Completed()
    assert not bench.queue.has_pending_work()


@pytest.mark.kinds("threads", "coroutines", "async")
@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("prefetch", [0, 10])
def test_so_is_work_that_they_bring_through_another_handle(bench, prefetch, at_once):
    """As from another process: it was there before its bringer ended, and so it is seen by whoever looks after that."""

    def in_thread(job, _token):
        for new in following(job):
            feeder.ingest(new)

    async def in_loop(job, token):
        in_thread(job, token)

    with closing(bandog.connect(bench.path)) as feeder:
        bench.queue.ingest(Job(job_id="job-40", payload=40))
        bench.burst(in_loop if bench.is_async else in_thread, prefetch=prefetch, at_once=at_once)
        assert feeder.read("job-0").outcome == Completed()


def test_retries_and_jobs_due_later_are_left_alone(bench):
    bench.ingest("raises", "retry", what="ValueError", budget={"max_attempts": 3, "backoff": Backoff(3600.0, 3600.0)})
    bench.ingest("answers", "snooze", what="Snooze")
    bench.ingest("no_op", "later", budget={"delay": 3600.0})
    bench.ingest("no_op", "now")
    worker = bench.burst()
    assert bench.queue.read("now").outcome == Completed()
    for name, attempts in (("retry", 1), ("snooze", 1), ("later", 0)):
        record = bench.queue.read(name)
        assert (record.state, record.attempts) == ("queued", attempts)
    assert (worker.stats().retried, worker.stats().snoozed) == (1, 1)


def test_retries_that_are_due_at_once_are_done(bench):
    bench.ingest("raises", "a", what="ValueError", budget={"max_attempts": 20, "backoff": Backoff(0.0, 0.0)})
    bench.burst()
    record = bench.queue.read("a")
    assert (record.outcome.kind, record.attempts) == ("failed", 20)


def test_other_queues_are_left_alone(bench):
    bench.ingest("no_op", "a")
    bench.ingest("no_op", "b", budget={"queue": "other"})
    bench.burst(queues="default")
    assert bench.queue.read("a").outcome == Completed()
    assert bench.queue.read("b").attempts == 0


def test_it_waits_for_what_runs(bench):
    bench.ingest("holds", "slow")
    bench.ingest("no_op", "quick")
    running = Background(lambda: bench.burst(at_once=2))
    bench.await_note("slow", "started")
    bench.settled("quick")
    time.sleep(0.1)
    bench.let_go("slow")
    running.join()
    assert bench.queue.read("slow").outcome == Completed("held on")


def test_it_can_be_stopped_before(bench):
    bench.ingest("holds", "a")
    worker = bench.worker(grace=0.0)
    bench.workers.append(worker)
    how = (lambda: bench.thread.call(worker.run_async, burst=True)) if bench.thread else lambda: worker.run(burst=True)
    running = Background(how)
    bench.await_note("a", "started")
    worker.stop()
    running.join()
    assert (bench.queue.read("a").state, bench.queue.read("a").charged) == ("queued", 0)


def test_jobs_that_come_while_it_drains_are_done_or_left_queued_and_never_lost(bench):
    stop = threading.Event()
    numbers = []

    def feed():
        with closing(bandog.connect(bench.path)) as feeder:
            while not stop.is_set() and len(numbers) < 300:
                feeder.ingest(bench.job("noted", f"job-{len(numbers)}"))
                numbers.append(len(numbers))

    feeding = Background(feed)
    wait_until(lambda: len(numbers) > 5, "some are there")
    try:
        bench.burst(at_once=2)
    finally:
        stop.set()
        feeding.join()
    bench.burst(at_once=2)
    for number in numbers:
        record = bench.queue.read(f"job-{number}")
        assert (record.outcome, record.attempts) == (Completed(), 1)
    assert len(bench.noted()) == len(numbers)
