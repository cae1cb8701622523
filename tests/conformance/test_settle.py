"""Settle: what each report of the holder makes of the job."""

from datetime import timedelta

import pytest
from steps import LEASE, claim_one, everything

from bandog import (
    Cancelled,
    Completed,
    Failed,
    Interrupted,
    InvalidJob,
    Job,
    JobNotFound,
    OutcomeUnknown,
    Release,
    Settlement,
    Snooze,
    StaleClaim,
)


@pytest.fixture
def claim(queue):
    queue.enqueue(job_id="a", max_attempts=3)
    return claim_one(queue, "a", worker="w-1")


def settled(store, queue, claim, settlement, outcome):
    """The job has its outcome: now, after reopening, and whatever comes later."""
    assert settlement == Settlement(outcome.kind)
    record = queue.read("a")
    assert (record.state, record.outcome, record.attempts, record.worker) == ("settled", outcome, 1, "w-1")
    assert store.is_about(record.settled_at, store.now())
    assert (record.lease_until, record.available_at, record.claimed_at) == (None, None, None)
    assert not queue.has_pending_work()
    before = everything(record)
    reopened = store.reopen()
    assert everything(reopened.read("a")) == before
    store.advance(10_000)
    assert reopened.recover() == ((), ())
    assert reopened.claim() == []
    with pytest.raises(StaleClaim):
        reopened.renew(claim)
    assert everything(reopened.read("a")) == before


@pytest.mark.parametrize("result", [None, {"pages": [1, 2]}, 0, False, "", [], "a\0b"], ids=repr)
def test_acknowledge_completes_the_job_with_its_result(store, queue, claim, result):
    settled(store, queue, claim, queue.acknowledge(claim, result), Completed(result))


@pytest.mark.parametrize("reason", ["broken", "", "é\n🐕", "x" * 100_000], ids=lambda reason: ascii(reason)[:20])
def test_a_failure_without_retry_is_final(store, queue, claim, reason):
    settled(store, queue, claim, queue.fail(claim, reason, retry=False), Failed(reason))


@pytest.mark.parametrize("reason", [None, "shutting down"])
def test_cancelled_records_the_reason(store, queue, claim, reason):
    settled(store, queue, claim, queue.cancelled(claim, reason), Cancelled(reason))


@pytest.mark.parametrize("evidence", [None, {"provider": "no answer"}, "", 0], ids=repr)
def test_outcome_unknown_records_the_evidence(store, queue, claim, evidence):
    settled(store, queue, claim, queue.outcome_unknown(claim, evidence), OutcomeUnknown(evidence))


@pytest.mark.parametrize("delay", [3600, 3600.0, timedelta(hours=1)], ids=repr)
def test_snooze_runs_the_job_later_and_gives_the_attempt_back(store, queue, claim, delay):
    settlement = queue.settle(claim, Snooze(delay))
    assert settlement.kind == "snoozed"
    assert store.is_about(settlement.available_at, store.now() + timedelta(hours=1))
    record = queue.read("a")
    assert (record.state, record.outcome, record.worker) == ("queued", None, None)
    assert record.available_at == settlement.available_at
    assert (record.attempts, record.given_back, record.charged, record.recoveries) == (1, 1, 0, 0)
    store.advance(3000)
    assert queue.claim() == []
    store.advance(601)
    again = claim_one(queue, "a")
    assert (again.attempt, again.charged) == (2, 1)


def test_release_hands_the_job_back_at_once_and_gives_the_attempt_back(store, queue, claim):
    assert queue.release(claim).kind == "released"
    record = queue.read("a")
    assert (record.state, record.attempts, record.given_back, record.charged) == ("queued", 1, 1, 0)
    again = claim_one(store.connect(), "a")
    assert (again.attempt, again.charged) == (2, 1)
    assert again.lease_token != claim.lease_token


def test_a_retried_failure_tells_the_next_attempt_what_happened(store, queue, claim):
    settlement = queue.fail(claim, "first try", retry_in=100)
    assert settlement.kind == "retried"
    assert store.is_about(settlement.available_at, store.now() + timedelta(seconds=100))
    record = queue.read("a")
    assert (record.state, record.error, record.outcome) == ("queued", "first try", None)
    assert record.available_at == settlement.available_at
    store.advance(101)
    again = claim_one(queue, "a")
    assert (again.attempt, again.charged, again.last_error) == (2, 2, "first try")


def test_a_put_back_job_keeps_its_place_and_content(store, queue):
    queue.ingest(Job(job_id="a", queue="mail", lane="acme", priority=7, payload=[1], max_attempts=5, timeout=9))
    for report in (Failed("why", retry_in=0), Snooze(0), Release()):
        queue.settle(claim_one(queue, "a"), report)
        record = queue.read("a")
        assert (record.queue, record.lane, record.priority, record.payload) == ("mail", "acme", 7, [1])
        queue.enqueue(job_id=f"lower {report.kind}", queue="mail", priority=6)
        again = claim_one(queue, "a", queues="mail")
        assert (again.lane, again.priority, again.timeout, again.payload) == ("acme", 7, 9.0, [1])
        queue.release(again)
        store.advance(1)


@pytest.mark.parametrize("as_pair", [False, True], ids=["claim", "pair"])
@pytest.mark.parametrize(
    ("report", "kind"),
    [
        (Completed(), "completed"),
        (Failed("why", retry=False), "failed"),
        (Failed("why"), "retried"),
        (Cancelled(), "cancelled"),
        (OutcomeUnknown(), "outcome_unknown"),
        (Snooze(1), "snoozed"),
        (Release(), "released"),
    ],
    ids=lambda part: part if isinstance(part, str) else type(part).__name__,
)
def test_a_claim_may_be_named_by_id_and_token_from_anywhere(store, claim, report, kind, as_pair):
    named = ("a", claim.lease_token) if as_pair else claim
    assert store.connect().settle(named, report).kind == kind


def test_settle_many_answers_each_claim_in_order_in_one_call(store, queue):
    queue.ingest_many(Job(job_id=f"{number}", max_attempts=2) for number in range(6))
    claims = queue.claim(limit=6, lease=LEASE)
    lost = ("5", claims[5].lease_token + "x")
    settlements = queue.settle_many(
        [
            (claims[0], Completed(1)),
            (claims[1], Failed("why")),
            (("never", "token"), Completed()),
            (claims[2], Snooze(30)),
            (lost, Completed()),
            (claims[3], Release()),
            (claims[4], Cancelled("no")),
        ]
    )
    kinds = ["completed", "retried", "not_found", "snoozed", "stale", "released", "cancelled"]
    assert [settlement.kind for settlement in settlements] == kinds
    assert store.is_about(settlements[3].available_at, store.now() + timedelta(seconds=30))
    states = [queue.read(f"{number}").state for number in range(6)]
    assert states == ["settled", "queued", "queued", "queued", "settled", "running"]
    assert queue.settle_many([]) == []


def test_an_unknown_job_is_not_found(queue):
    for report in (Completed(), Failed("why"), Snooze(1), Release(), Cancelled(), OutcomeUnknown()):
        with pytest.raises(JobNotFound) as caught:
            queue.settle(("never", "token"), report)
        assert caught.value.job_id == "never"


@pytest.mark.parametrize(
    ("name", "report"),
    [
        ("retry_in", Failed("why", retry_in=-1)),
        ("retry_in", Failed("why", retry_in=float("nan"))),
        ("retry_in", Failed("why", retry_in=True)),
        ("retry_in", Failed("why", retry_in="1")),
        ("retry_in", Failed("why", retry_in=timedelta(days=-1))),
        ("backoff", Failed("why", backoff=5)),
        ("delay", Snooze(-0.5)),
        ("delay", Snooze(float("inf"))),
        ("delay", Snooze(True)),
        ("delay", Snooze(None)),
        ("outcome", None),
        ("outcome", "completed"),
        ("outcome", Completed),
        ("outcome", object()),
        ("outcome", Settlement("retried")),
    ],
    ids=repr,
)
def test_a_report_that_is_not_allowed_is_named_and_the_claim_holds_on(queue, claim, name, report):
    before = everything(queue.read("a"))
    with pytest.raises(InvalidJob) as caught:
        queue.settle(claim, report)
    assert caught.value.field.split()[0] == name
    assert everything(queue.read("a")) == before
    assert queue.acknowledge(claim).kind == "completed"


def test_interrupted_cannot_be_reported(queue, claim):
    with pytest.raises(InvalidJob):
        queue.settle(claim, Interrupted("by me"))
    assert queue.read("a").state == "running"


@pytest.mark.parametrize("named", ["a", ("a",), ("a", "b", "c"), None, 5, ["a", "b"], (1, "b"), ("a", 1)], ids=repr)
def test_what_names_no_claim_is_refused(queue, claim, named):
    for settle in (queue.acknowledge, queue.cancelled, queue.outcome_unknown, queue.release):
        with pytest.raises(InvalidJob):
            settle(named)
    with pytest.raises(InvalidJob):
        queue.fail(named, "why")
    assert queue.acknowledge(claim).kind == "completed"


@pytest.mark.parametrize("report", [None, 1, ("a", "b", "c"), (), "ab"], ids=repr)
def test_settle_many_of_what_is_no_pair_is_refused(queue, claim, report):
    with pytest.raises(InvalidJob):
        queue.settle_many([(claim, Completed()), report])
    assert queue.read("a").state == "running"
    assert queue.acknowledge(claim).kind == "completed"


def test_one_invalid_report_keeps_the_whole_call_out(queue):
    queue.ingest_many([Job(job_id="a"), Job(job_id="b")])
    first, second = queue.claim(limit=2)
    with pytest.raises(InvalidJob):
        queue.settle_many([(first, Completed()), (second, Snooze(-1))])
    assert [queue.read(name).state for name in ("a", "b")] == ["running", "running"]
