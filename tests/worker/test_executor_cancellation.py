"""Being told to stop: the record tells the truth while the executor still runs, and one outcome follows (C44)."""

import asyncio
import threading
from contextlib import closing

import pytest
from steps import wait_until

import bandog
from bandog import Backoff, Cancelled, Completed, Failed, JobAborted, OutcomeUnknown, Snooze
from bandog.testing import FakeClock


def test_a_job_that_ignores_its_token_is_running_until_it_really_ends(bench):
    bench.ingest("holds", "deaf", ignores=True)
    worker = bench.start()
    bench.await_note("deaf", "started")
    bench.ingest("noted", "next")
    assert bench.queue.cancel("deaf", "not wanted").kind == "requested"
    bench.await_note("deaf", "aborted:cancel_requested:not wanted")
    record = bench.queue.read("deaf")
    assert (record.state, record.cancel_reason, record.outcome) == ("running", "not wanted", None)
    assert record.cancel_requested_at is not None
    # Its slot is not given away.
    assert (worker.stats().running, worker.stats().claimed) == (1, 1)
    assert bench.queue.read("next").state == "queued"
    assert bench.queue.cancel("deaf", "again").kind == "requested"
    bench.let_go("deaf")
    # What it reports is its outcome: it did the work.
    assert bench.settled("deaf").outcome == Completed("held on")
    assert bench.settled("next").outcome == Completed()
    words = bench.noted("deaf")
    assert [word for word in words if word.startswith("aborted")] == ["aborted:cancel_requested:not wanted"]
    assert words.count("CancelledError") == (1 if bench.is_async else 0)
    assert bench.noted()[-1] == "next 1 ran"


def test_one_that_stops_as_it_is_told_is_cancelled_with_the_reason(bench):
    bench.ingest("holds", "a", budget={"max_attempts": 5})
    worker = bench.start()
    bench.await_note("a", "started")
    bench.queue.cancel("a", "not wanted")
    record = bench.settled("a")
    assert record.outcome == Cancelled("not wanted")
    assert record.attempts == 1
    assert "ended" not in bench.noted("a")
    bench.await_counts(worker, cancelled=1, running=0, failed=0)


def test_a_request_from_another_handle_arrives_with_the_next_renewal(bench):
    bench.ingest("holds", "a")
    bench.start(lease=0.5)
    bench.await_note("a", "started")
    with closing(bandog.connect(bench.path)) as other:
        assert other.cancel("a", "from afar").kind == "requested"
    assert bench.settled("a").outcome == Cancelled("from afar")


def test_no_write_of_an_executor_whose_job_was_settled_is_accepted(bench):
    claims = []

    def keep(job, _token):
        claims.append(job)
        raise ValueError("the failure that counts")

    async def keep_async(job, token):
        return keep(job, token)

    if bench.kind == "processes":
        # A child has no queue; its claim is the same one.
        bench.ingest("holds", "a")
        bench.start()
        bench.await_note("a", "started")
        token = select_token(bench, "a")
        bench.let_go("a")
        claim = ("a", token)
    else:
        bench.ingest("no_op", "a")
        bench.start(keep_async if bench.is_async else keep)
        bench.settled("a")
        claim = claims[0]
    before = bench.settled("a")
    for late in (Completed("late"), Failed("late"), Cancelled("late"), Snooze(1), OutcomeUnknown("late")):
        # What was recorded is repeated, and nothing changes.
        assert bench.queue.settle(claim, late).kind == before.outcome.kind
    with pytest.raises(bandog.StaleClaim):
        bench.queue.renew(claim)
    after = bench.queue.read("a")
    assert (after.outcome, after.settled_at, after.error) == (before.outcome, before.settled_at, before.error)


def select_token(bench, job_id):
    import sqlite3  # noqa: PLC0415 - behind the surface: no public call shows the secret of another's claim

    with closing(sqlite3.connect(bench.path)) as connection:
        statement = """
            SELECT lease_token FROM bandog_lease JOIN bandog_job USING (number) WHERE job_id = ?
        """
        ((token,),) = connection.execute(statement, (job_id,)).fetchall()
    return token


# A coroutine


@pytest.mark.kinds("coroutines", "async")
@pytest.mark.parametrize("why", ["cancel", "timeout", "stop"])
def test_a_coroutine_gets_cancelled_error_exactly_once(bench, why):
    caught = []
    go_on = threading.Event()
    started = threading.Event()

    async def stubborn(_job, token):
        started.set()
        while not go_on.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                caught.append(token.reason)
        # As many chances for a second one as anybody can need.
        for _ in range(20):
            await asyncio.sleep(0.001)
        return Completed("to the end")

    bench.ingest("no_op", "a", budget={"timeout": 0.05 if why == "timeout" else None})
    worker = bench.start(stubborn)
    started.wait(30)
    if why == "cancel":
        bench.queue.cancel("a", "not wanted")
    elif why == "stop":
        worker.stop(0.0, wait=False)
    wait_until(lambda: caught, "CancelledError arrives")
    if why != "stop":
        bench.queue.cancel("a", "once more")
    go_on.set()
    assert bench.settled("a").outcome == Completed("to the end")
    assert caught == [{"cancel": "cancel_requested", "timeout": "timeout", "stop": "shutdown"}[why]]


@pytest.mark.kinds("coroutines", "async")
def test_the_job_that_follows_a_cancelled_one_is_not_cancelled(bench):
    async def quick(job, _token):
        if job.job_id == "a":
            await asyncio.sleep(60)
        for _ in range(10):
            await asyncio.sleep(0.001)
        return Completed("whole")

    bench.ingest("no_op", "a")
    worker = bench.start(quick)
    wait_until(lambda: worker.stats().running == 1, "it runs")
    bench.ingest("no_op", "b")
    bench.queue.cancel("a", "not wanted")
    assert bench.settled("a").outcome == Cancelled("not wanted")
    assert bench.settled("b").outcome == Completed("whole")


@pytest.mark.kinds("coroutines", "async")
def test_a_cancelled_coroutine_may_clean_up_and_say_otherwise(bench):
    async def execute(job, _token):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            if job.job_id == "unknown":
                return OutcomeUnknown({"step": 2})
            raise ValueError("the clean-up failed") from None

    for name in ("unknown", "error"):
        bench.ingest("no_op", name)
        worker = bench.start(execute)
        wait_until(lambda worker=worker: worker.stats().running == 1, "it runs")
        bench.queue.cancel(name, "not wanted")
        bench.settled(name)
        bench.stop(worker)
    assert bench.queue.read("unknown").outcome == OutcomeUnknown({"step": 2})
    assert "the clean-up failed" in bench.queue.read("error").outcome.reason


# Reasons


@pytest.mark.kinds("threads", "coroutines", "async")
def test_job_aborted_for_another_reason_than_the_tokens_is_a_failure(bench):
    def wrong(_job, token):
        token.wait(30)
        raise JobAborted("shutdown")

    async def wrong_async(_job, token):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            assert token.reason == "cancel_requested"
        raise JobAborted("shutdown")

    bench.ingest("no_op", "a")
    worker = bench.start(wrong_async if bench.is_async else wrong)
    wait_until(lambda: worker.stats().running == 1, "it runs")
    bench.queue.cancel("a", "not wanted")
    assert bench.settled("a").outcome.kind == "failed"
    assert "JobAborted" in bench.queue.read("a").outcome.reason


def test_a_timeout_is_a_failure_that_is_tried_again_within_its_budget(bench):
    bench.ingest("holds", "a", budget={"timeout": 0.15, "max_attempts": 2, "backoff": Backoff(0.01)})
    worker = bench.start()
    record = bench.settled("a")
    assert isinstance(record.outcome, Failed)
    assert "longer than its timeout" in record.outcome.reason
    assert (record.attempts, record.charged) == (2, 2)
    assert bench.noted("a").count("started") == 2
    bench.await_counts(worker, retried=1, failed=1)


def test_the_workers_timeout_is_for_jobs_that_bring_none(bench):
    bench.ingest("holds", "plain")
    bench.ingest("holds", "patient", budget={"timeout": 60.0})
    bench.start(at_once=2, timeout=0.2)
    assert "longer than its timeout" in bench.settled("plain").outcome.reason
    assert bench.queue.read("patient").state == "running"
    bench.let_go("patient")
    assert bench.settled("patient").outcome == Completed("held on")


def test_a_job_that_completes_in_spite_of_its_timeout_is_completed(bench):
    bench.ingest("holds", "a", ignores=True, budget={"timeout": 0.1})
    bench.start()
    bench.await_note("a", "aborted:timeout:None")
    assert bench.queue.read("a").state == "running"
    bench.let_go("a")
    assert bench.settled("a").outcome == Completed("held on")


def test_a_timeout_counts_from_the_executors_start_and_not_from_the_claim(bench):
    bench.ingest("holds", "first", budget={"priority": 1})
    for number in range(3):
        bench.ingest("noted", f"waiting-{number}", budget={"timeout": 0.2})
    worker = bench.start(prefetch=10)
    bench.await_note("first", "started")
    wait_until(lambda: worker.stats().waiting == 3, "the others are claimed ahead")
    threading.Event().wait(0.5)  # longer than their timeout
    assert worker.stats().waiting == 3
    bench.let_go("first")
    for number in range(3):
        assert bench.settled(f"waiting-{number}").outcome == Completed()


def test_a_childs_or_threads_start_does_not_count_either(bench):
    bench.ingest("sleeps", "a", seconds=0.0, budget={"timeout": 0.1})
    bench.start()
    assert bench.settled("a").outcome == Completed()


def test_a_stop_puts_a_job_that_obeys_back_uncharged(bench):
    bench.ingest("holds", "a", budget={"max_attempts": 1})
    worker = bench.start()
    bench.await_note("a", "started")
    bench.stop(worker, 0.0)
    record = bench.queue.read("a")
    assert (record.state, record.attempts, record.given_back, record.charged) == ("queued", 1, 1, 0)
    assert worker.stats().released == 1
    assert "aborted:shutdown:None" in bench.noted("a") or bench.is_async
    # At once, and for another worker.
    bench.let_go("a")
    bench.start()
    assert bench.settled("a").outcome == Completed("held on")
    assert bench.queue.read("a").charged == 1


def test_a_stop_lets_what_runs_finish_within_its_grace(bench):
    bench.ingest("holds", "a")
    worker = bench.start()
    bench.await_note("a", "started")
    bench.ingest("noted", "later")
    worker.stop(30.0, wait=False)
    wait_until(lambda: worker.stats().state == "stopping", "it stops")
    assert not worker.running
    bench.let_go("a")
    wait_until(lambda: worker.stats().state == "stopped", "it has stopped")
    assert bench.queue.read("a").outcome == Completed("held on")
    assert not any(word.startswith("aborted") for word in bench.noted("a"))
    assert (bench.queue.read("later").state, bench.queue.read("later").attempts) == ("queued", 0)


# A lost lease


@pytest.fixture
def moved(bench):
    """The bench with a clock that only the test moves, and a second handle."""
    bench.queue.close()
    clock = FakeClock()
    bench.open(clock=clock)
    with closing(bandog.connect(bench.path, clock=clock)) as other:
        yield clock, other


@pytest.mark.parametrize("ignores", [False, True])
def test_a_lost_lease_aborts_the_token_and_nothing_more_is_recorded_for_it(bench, moved, ignores):
    clock, other = moved
    events = []
    bench.ingest("holds", "a", ignores=ignores, budget={"max_recoveries": 0})  # or it would be claimed again
    worker = bench.start(lease=10.0, on_events=events.extend)
    bench.await_note("a", "started")
    clock.advance(11)
    other.recover()
    assert bench.settled("a").outcome.kind == "interrupted"
    if ignores:
        bench.await_note("a", "aborted:lease_lost:None")
        assert worker.stats().running == 1
        bench.let_go("a")
    bench.await_counts(worker, stale=1, completed=0, failed=0, running=0)
    record = other.read("a")
    assert (record.outcome.kind, record.attempts) == ("interrupted", 1)
    assert "lost" in record.outcome.reason
    # The worker itself may have been the one that found it lost.
    kinds = [["claimed", "stale"], ["claimed", "interrupted", "stale"], ["claimed", "stale", "interrupted"]]
    wait_until(lambda: [event.kind for event in events] in kinds, f"events: {events}")
    bench.ingest("no_op", "next")
    assert bench.settled("next").outcome == Completed()


@pytest.mark.kinds("threads", "coroutines", "async", "processes")
def test_a_claim_that_another_worker_has_taken_over_is_left_to_it(bench, moved):
    clock, other = moved
    bench.ingest("holds", "a", ignores=True, budget={"max_recoveries": 3})
    worker = bench.start(lease=10.0)
    bench.await_note("a", "started")
    worker.stop(30.0, wait=False)
    clock.advance(11)
    (claim,) = other.claim("thief")
    assert claim.attempt == 2
    bench.let_go("a")
    wait_until(lambda: worker.stats().state == "stopped", "it ends")
    assert (other.read("a").state, other.read("a").worker) == ("running", "thief")
    other.acknowledge(claim, "by the thief")
    assert other.read("a").outcome == Completed("by the thief")
