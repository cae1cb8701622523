"""Cancel: a queued job never runs, a running one is asked to stop, a settled one keeps its outcome.

What an executor is told, and when, is in ``test_cancel_running.py``.
"""

import pytest
from steps import LEASE, Background, claim_one, claimed_ids, everything

from bandog import (
    Cancellation,
    Cancelled,
    Completed,
    Failed,
    InvalidJob,
    Job,
    JobNotFound,
    OutcomeUnknown,
    Release,
    Snooze,
    StaleClaim,
)


def running(queue, job_id="a", **fields):
    """A claim on a job that was just enqueued."""
    queue.enqueue(job_id=job_id, **fields)
    return claim_one(queue, job_id)


# Queued


@pytest.mark.parametrize("delay", [None, 1000], ids=["due", "later"])
def test_a_queued_job_is_cancelled_and_never_runs(store, queue, delay):
    queue.ingest_many([Job(job_id="a", delay=delay), Job(job_id="b")])
    assert queue.cancel("a", "the order was withdrawn") == Cancellation("cancelled", None)
    record = queue.read("a")
    assert (record.state, record.outcome) == ("settled", Cancelled("the order was withdrawn"))
    assert (record.attempts, record.worker) == (0, None)
    assert store.is_about(record.settled_at, store.now())
    store.advance(2000)
    assert claimed_ids(queue) == ["b"]
    assert store.reopen().read("a").outcome == Cancelled("the order was withdrawn")


def test_a_reason_is_given_where_the_caller_has_none(queue):
    queue.enqueue(job_id="a")
    queue.cancel("a")
    assert queue.read("a").outcome == Cancelled("cancelled on request")


def test_a_job_that_waits_for_another_attempt_is_cancelled_with_its_counters(queue):
    claim = running(queue, max_attempts=5)
    queue.fail(claim, "first", retry_in=1000)
    assert queue.cancel("a", "enough") == Cancellation("cancelled")
    record = queue.read("a")
    assert (record.outcome, record.attempts, record.charged) == (Cancelled("enough"), 1, 1)


def test_a_settle_that_is_repeated_after_the_cancel_gets_its_own_answer(queue):
    claim = running(queue, max_attempts=5)
    assert queue.settle(claim, Snooze(1000)).kind == "snoozed"
    queue.cancel("a")
    before = everything(queue.read("a"))
    assert queue.settle(claim, Snooze(1000)).kind == "snoozed"
    with pytest.raises(StaleClaim):
        queue.renew(claim)
    assert everything(queue.read("a")) == before


def test_cancelling_touches_no_other_job(queue):
    queue.ingest_many([Job(job_id="a"), Job(job_id="b"), Job(job_id="A"), Job(job_id="a ")])
    others = [everything(queue.read(job_id)) for job_id in ("b", "A", "a ")]
    queue.cancel("a")
    assert [everything(queue.read(job_id)) for job_id in ("b", "A", "a ")] == others


@pytest.mark.parametrize("job_id", ["a:b", "a/b", "../x", "%2F", " ", "0", "'\"`;", "🐕", "trailing ", "x" * 255])
def test_a_job_of_any_id_can_be_cancelled_requeued_and_purged(store, queue, job_id):
    """C36."""
    queue.enqueue(job_id=job_id)
    assert queue.cancel(job_id).kind == "cancelled"
    queue.requeue(job_id, force=True)
    claim = claim_one(queue, job_id)
    assert queue.cancel(job_id).kind == "requested"
    queue.acknowledge(claim)
    assert queue.cancel(job_id) == Cancellation("settled", "completed")
    store.advance(1)
    assert queue.purge(older_than=0) == 1
    with pytest.raises(JobNotFound):
        queue.cancel(job_id)


# Running


def test_a_running_job_is_asked_to_stop_and_says_so(store, queue):
    claim = running(queue)
    assert queue.cancel("a", "the order was withdrawn") == Cancellation("requested", None)
    record = queue.read("a")
    assert (record.state, record.cancel_reason) == ("running", "the order was withdrawn")
    assert store.is_about(record.cancel_requested_at, store.now())
    assert (record.outcome, record.settled_at) == (None, None)
    # The request is stored, and the claim holds on.
    queue = store.reopen()
    assert queue.read("a").cancel_reason == "the order was withdrawn"
    assert queue.renew(claim) == "the order was withdrawn"
    assert queue.acknowledge(claim).kind == "completed"


def test_a_request_keeps_the_job_from_nobody_else(queue):
    running(queue)
    queue.cancel("a")
    assert queue.claim() == []
    assert queue.has_pending_work()


def test_of_several_requests_the_first_stands(store, queue):
    claim = running(queue)
    queue.cancel("a", "first")
    asked = queue.read("a").cancel_requested_at
    store.advance(10)
    assert store.connect().cancel("a", "second") == Cancellation("requested")
    record = queue.read("a")
    assert (record.cancel_reason, record.cancel_requested_at) == ("first", asked)
    assert queue.renew(claim) == "first"
    queue.release(claim)
    assert queue.read("a").outcome == Cancelled("first")


def test_a_renewal_without_a_request_says_nothing(queue):
    assert queue.renew(running(queue)) is None


# The outcome of a claim that ends after the request.


ENDS = [
    (Completed({"n": 1}), "completed", Completed({"n": 1})),
    (Cancelled("stopped half-way"), "cancelled", Cancelled("stopped half-way")),
    (Cancelled(), "cancelled", Cancelled("asked")),
    (OutcomeUnknown(["no answer"]), "outcome_unknown", OutcomeUnknown(["no answer"])),
    (Failed("broken", retry=False), "failed", Failed("broken")),
    (Failed("broken"), "failed", Failed("broken")),
    (Failed("broken", retry_in=0), "failed", Failed("broken")),
    (Snooze(10), "cancelled", Cancelled("asked")),
    (Release(), "cancelled", Cancelled("asked")),
]


@pytest.mark.parametrize(("report", "kind", "outcome"), ENDS, ids=repr)
@pytest.mark.parametrize("max_attempts", [None, 9])
def test_a_job_ends_with_the_report_that_comes_after_the_request(store, queue, max_attempts, report, kind, outcome):
    claim = running(queue, max_attempts=max_attempts, max_recoveries=9)
    queue.cancel("a", "asked")
    assert queue.settle(claim, report).kind == kind
    record = queue.read("a")
    assert (record.state, record.outcome) == ("settled", outcome)
    assert record.given_back == (1 if isinstance(report, Snooze | Release) else 0)
    assert (record.cancel_requested_at, record.cancel_reason) == (None, None)
    store.advance(1000)
    assert queue.claim() == []
    # The answer that was lost is the same the second time.
    assert queue.settle(claim, report).kind == kind


@pytest.mark.parametrize("max_attempts", [None, 9])
def test_a_claim_that_is_lost_after_the_request_is_interrupted_and_not_run_again(store, queue, max_attempts):
    claim = running(queue, max_attempts=max_attempts, max_recoveries=9)
    queue.cancel("a", "asked")
    store.advance(LEASE + 1)
    assert queue.recover() == ((), ("a",))
    record = queue.read("a")
    assert (record.outcome.kind, record.recoveries, record.attempts) == ("interrupted", 0, 1)
    with pytest.raises(StaleClaim):
        queue.acknowledge(claim)
    assert queue.claim() == []


def test_a_request_after_the_lease_has_ended_stops_the_job_at_the_next_claim(store, queue):
    """C07: the job that kills its workers is cancelled between two of them."""
    running(queue, max_attempts=9)
    store.advance(LEASE + 1)
    assert queue.cancel("a") == Cancellation("requested")
    assert queue.claim() == []
    assert queue.read("a").outcome.kind == "interrupted"


def test_a_request_between_recovery_and_the_next_claim_cancels(store, queue):
    running(queue, max_attempts=9)
    store.advance(LEASE + 1)
    assert queue.recover() == (("a",), ())
    assert queue.cancel("a", "enough") == Cancellation("cancelled")
    assert queue.read("a").outcome == Cancelled("enough")
    assert queue.claim() == []


def test_a_request_counts_for_the_claim_that_it_met_only(store, queue):
    """A requeue clears it (design: budgets)."""
    claim = running(queue, max_attempts=5)
    queue.cancel("a")
    assert queue.fail(claim, "stopped").kind == "failed"
    queue.requeue("a")
    again = claim_one(queue, "a")
    assert queue.renew(again) is None
    assert queue.read("a").cancel_requested_at is None
    assert queue.fail(again, "once more", retry_in=0).kind == "retried"
    store.advance(1)
    assert queue.acknowledge(claim_one(queue, "a")).kind == "completed"


# Settled, missing, wrong


@pytest.mark.parametrize(
    ("report", "kind"),
    [
        (Completed("done"), "completed"),
        (Failed("why"), "failed"),
        (Cancelled("why"), "cancelled"),
        (OutcomeUnknown("evidence"), "outcome_unknown"),
    ],
    ids=["completed", "failed", "cancelled", "outcome_unknown"],
)
def test_a_settled_job_keeps_its_outcome_and_the_answer_names_it(queue, report, kind):
    queue.settle(running(queue), report)
    before = everything(queue.read("a"))
    assert queue.cancel("a", "too late") == Cancellation("settled", kind)
    assert everything(queue.read("a")) == before


def test_an_interrupted_job_is_named_as_such(store, queue):
    running(queue, max_recoveries=0)
    store.advance(LEASE + 1)
    queue.recover()
    assert queue.cancel("a") == Cancellation("settled", "interrupted")


def test_a_job_that_is_not_there_is_an_error(queue):
    with pytest.raises(JobNotFound) as caught:
        queue.cancel("nobody")
    assert caught.value.job_id == "nobody"


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("job_id", (None,)),
        ("job_id", (7,)),
        ("job_id", ("lone \ud800",)),
        ("reason", ("a", None)),
        ("reason", ("a", 7)),
        ("reason", ("a", b"why")),
    ],
    ids=ascii,
)
def test_an_argument_that_is_not_allowed_is_named(queue, field, arguments):
    queue.enqueue(job_id="a")
    with pytest.raises(InvalidJob) as caught:
        queue.cancel(*arguments)
    assert caught.value.field == field
    assert field in str(caught.value)
    assert queue.read("a").state == "queued"


@pytest.mark.parametrize("reason", ["", "lone \ud800", "nul \0", "🐕" * 1000, "line\nbreak"], ids=ascii)
def test_a_reason_of_any_characters_is_kept_or_replaced_and_never_in_the_way(store, queue, reason):
    queue.ingest_many([Job(job_id="waiting", queue="other"), Job(job_id="a")])
    claim = claim_one(queue, "a", queues="default")
    assert queue.cancel("waiting", reason).kind == "cancelled"
    assert queue.cancel("a", reason).kind == "requested"
    kept = queue.read("waiting").outcome.reason
    assert kept == reason or ("lone" in kept and "\ud800" not in kept) or ("nul" in kept and "\0" not in kept)
    assert queue.read("a").cancel_reason == kept
    assert queue.renew(claim) == kept
    queue.release(claim)
    assert store.reopen().read("a").outcome == Cancelled(kept)


# Races


def test_a_job_is_claimed_or_cancelled_and_never_both(store, queue):
    other = store.connect()
    for number in range(60):
        job_id = f"{number}"
        queue.enqueue(job_id=job_id)
        cancelling = Background(lambda job_id=job_id: other.cancel(job_id))
        claims = queue.claim()
        answer = cancelling.join()
        if claims:
            assert answer.kind == "requested"
            assert queue.acknowledge(claims[0]).kind == "completed"
        else:
            assert answer.kind == "cancelled"
        assert queue.read(job_id).outcome.kind == ("completed" if claims else "cancelled")


def test_a_request_and_a_report_at_once_end_in_one_outcome(store, queue):
    other = store.connect()
    for number in range(60):
        job_id = f"{number}"
        claim = running(queue, job_id)
        cancelling = Background(lambda job_id=job_id: other.cancel(job_id))
        assert queue.acknowledge(claim).kind == "completed"
        answer = cancelling.join()
        assert answer in {Cancellation("requested"), Cancellation("settled", "completed")}
        assert queue.read(job_id).outcome == Completed()
