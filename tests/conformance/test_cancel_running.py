"""Cancel, seen from the executor: its token is aborted, and its report stays the last word."""

import threading

import pytest
from steps import LEASE, Background, claimed_ids, executor_of, tick, watchdog

from bandog import (
    Cancelled,
    Completed,
    Failed,
    Job,
    JobAborted,
    OutcomeUnknown,
    Release,
    Snooze,
    StaleClaim,
    Tick,
)


def test_the_executor_is_told_at_once_with_the_reason(queue):
    queue.enqueue(job_id="a")
    called = threading.Event()
    reasons = []

    def execute(job, token):
        token.add_callback(lambda reason: (reasons.append(reason), called.set()))
        assert (token.aborted, token.reason, token.detail) == (False, None, None)
        assert queue.cancel(job.job_id, "the order was withdrawn").kind == "requested"
        assert token.wait(30) is True
        assert (token.aborted, token.reason, token.detail) == (True, "cancel_requested", "the order was withdrawn")
        with pytest.raises(JobAborted) as caught:
            token.raise_if_aborted()
        assert caught.value.reason == "cancel_requested"
        assert called.wait(30)
        return Cancelled("as asked")

    assert watchdog(queue, execute).tick() == Tick(kind="settled", job_id="a", outcome=Cancelled("as asked"))
    assert reasons == ["cancel_requested"]


def test_a_thread_that_waits_for_the_token_is_woken_by_a_request_from_another_thread(queue):
    queue.enqueue(job_id="a")
    started = threading.Event()

    def execute(_job, token):
        started.set()
        assert token.wait(30) is True
        return Cancelled(token.detail)

    ticking = Background(watchdog(queue, execute).tick)
    assert started.wait(30)
    queue.cancel("a", "now")
    assert ticking.join().outcome == Cancelled("now")


@pytest.mark.parametrize("lease", [8.0, LEASE])
def test_a_request_from_elsewhere_comes_with_the_next_renewal(store, queue, lease):
    queue.enqueue(job_id="a")
    elsewhere = store.connect()

    def execute(_job, token):
        assert elsewhere.cancel("a", "from elsewhere").kind == "requested"
        store.advance(min(10.0, lease / 4) + 0.001)
        assert token.wait(30) is True
        assert (token.reason, token.detail) == ("cancel_requested", "from elsewhere")
        return Cancelled(token.detail)

    assert watchdog(queue, execute, lease=lease).tick().outcome == Cancelled("from elsewhere")


def test_of_two_requests_the_executor_sees_the_first(store, queue):
    queue.enqueue(job_id="a")
    elsewhere = store.connect()

    def execute(_job, token):
        elsewhere.cancel("a", "first")
        queue.cancel("a", "second")
        assert token.wait(30) is True
        # What is recorded and what the executor is told agree.
        assert queue.read("a").cancel_reason == "first"
        return Cancelled(token.detail)

    assert watchdog(queue, execute).tick().outcome == Cancelled("first")


def test_the_claim_is_kept_until_the_executor_has_ended(store, queue):
    """C44: the request ends neither the lease nor the job."""
    queue.ingest_many([Job(job_id="a"), Job(job_id="b")])
    other = store.connect()
    steps = LEASE / 4

    def execute(job, token):
        if job.job_id == "b":
            return None
        queue.cancel("a", "please")
        assert token.wait(30) is True
        for _ in range(12):  # three leases, each step as long as the renewals need
            before = other.read("a").lease_until
            store.advance(steps)
            deadline = threading.Event()
            for _ in range(3000):
                if other.read("a").lease_until > before:
                    break
                deadline.wait(0.01)
            record = other.read("a")
            assert (record.state, record.cancel_reason, record.outcome) == ("running", "please", None)
        assert other.recover() == ((), ())
        return Completed("all the same")

    dog = watchdog(queue, execute, lease=LEASE)
    assert dog.tick().outcome == Completed("all the same")
    record = queue.read("a")
    assert (record.state, record.outcome, record.attempts) == ("settled", Completed("all the same"), 1)
    assert dog.tick().job_id == "b"


def test_no_later_write_of_the_claim_is_accepted(queue):
    """C44."""
    queue.enqueue(job_id="a")
    claims = []

    def execute(job, token):
        claims.append(job)
        queue.cancel("a")
        token.raise_if_aborted()

    assert watchdog(queue, execute).tick().outcome.kind == "cancelled"
    with pytest.raises(StaleClaim):
        queue.renew(claims[0])
    assert queue.acknowledge(claims[0]).kind == "cancelled"
    assert queue.read("a").outcome.kind == "cancelled"


@pytest.mark.parametrize(
    ("answer", "kind", "outcome"),
    [
        (None, "settled", Completed()),
        (Completed(1), "settled", Completed(1)),
        (Cancelled(), "settled", Cancelled("asked")),
        (Failed("why"), "settled", Failed("why")),
        (Failed("why", retry_in=0), "settled", Failed("why")),
        (Snooze(5), "settled", Cancelled("asked")),
        (Release(), "settled", Cancelled("asked")),
        (OutcomeUnknown(2), "settled", OutcomeUnknown(2)),
    ],
    ids=repr,
)
def test_a_tick_reports_what_became_of_a_cancelled_job(queue, answer, kind, outcome):
    queue.enqueue(job_id="a", max_attempts=9)
    execute = executor_of(answer)

    def cancel_and_execute(job, token):
        queue.cancel("a", "asked")
        return execute(job, token)

    assert watchdog(queue, cancel_and_execute).tick() == Tick(kind=kind, job_id="a", outcome=outcome)


def test_a_runtime_goes_on_after_a_cancelled_job_returned_normally(queue):
    """C05: an error there took the whole worker down elsewhere."""
    queue.ingest_many(Job(job_id=f"{number}") for number in range(11))

    def execute(job, _token):
        if job.job_id == "0":
            assert queue.cancel("0").kind == "requested"

    dog = watchdog(queue, execute)
    for number in range(11):
        assert dog.tick() == Tick(kind="settled", job_id=f"{number}", outcome=Completed())
    assert dog.tick() == Tick(kind="idle")


def test_a_cancelled_job_is_passed_over_by_the_next_tick(store, queue):
    queue.ingest_many([Job(job_id="a", priority=9), Job(job_id="b")])
    queue.cancel("a")
    assert tick(queue, None).job_id == "b"
    assert tick(queue, None) == Tick(kind="idle")
    assert claimed_ids(store.connect()) == []
    assert store.held(queue) == 0
