"""Settle: a claim that has ended changes nothing, and a settle whose answer was lost may be repeated."""

import pytest
from steps import LEASE, claim_one, everything

from bandog import (
    Cancelled,
    Completed,
    Failed,
    Job,
    OutcomeUnknown,
    Release,
    Snooze,
    StaleClaim,
)

REPORTS = [
    Completed("late"),
    Failed("late"),
    Failed("late", retry=False),
    Cancelled("late"),
    OutcomeUnknown("late"),
    Snooze(1),
    Release(),
]
by_report = pytest.mark.parametrize("report", REPORTS, ids=repr)

FINAL = [Completed("mine"), Failed("mine", retry=False), Cancelled("mine"), OutcomeUnknown("mine")]
PUT_BACK = [(Failed("mine", retry_in=100), "retried"), (Snooze(100), "snoozed"), (Release(), "released")]
by_put_back = pytest.mark.parametrize(
    ("report", "kind"), PUT_BACK, ids=lambda part: part if isinstance(part, str) else ""
)


@pytest.fixture
def claim(queue):
    queue.enqueue(job_id="a", max_attempts=9)
    return claim_one(queue, "a")


def changes_nothing(queue, claim, report):
    before = everything(queue.read("a"))
    for named in (claim, ("a", claim.lease_token)) if not isinstance(claim, tuple) else (claim,):
        with pytest.raises(StaleClaim) as caught:
            queue.settle(named, report)
        assert caught.value.job_id == "a"
        assert named[1] not in str(caught.value) if isinstance(named, tuple) and named[1] else True
        assert queue.settle_many([(named, report)])[0].kind == "stale"
    assert everything(queue.read("a")) == before


@by_report
def test_an_expired_claim_is_stale_before_recovery_has_run(store, queue, claim, report):
    store.advance(LEASE + 1)
    assert queue.read("a").state == "running"
    changes_nothing(queue, claim, report)


@by_report
def test_an_expired_claim_is_stale_after_recovery(store, queue, claim, report):
    store.advance(LEASE + 1)
    assert queue.recover() == (("a",), ())
    changes_nothing(queue, claim, report)


@by_report
def test_a_replaced_claim_is_stale_and_its_successor_holds(store, queue, claim, report):
    store.advance(LEASE + 1)
    successor = claim_one(store.connect(), "a")
    assert successor.lease_token != claim.lease_token
    changes_nothing(queue, claim, report)
    assert queue.acknowledge(successor, "theirs").kind == "completed"
    changes_nothing(queue, claim, report)
    assert queue.read("a").outcome == Completed("theirs")


@by_report
def test_an_interrupted_job_stays_interrupted(store, queue, report):
    queue.enqueue(job_id="a", max_recoveries=0)
    claim = claim_one(queue, "a")
    store.advance(LEASE + 1)
    assert queue.recover() == ((), ("a",))
    changes_nothing(queue, claim, report)
    assert queue.read("a").outcome.kind == "interrupted"


@by_report
def test_a_wrong_token_is_stale(queue, claim, report):
    for token in ("", "wrong", claim.lease_token[:-1], claim.lease_token + " "):
        changes_nothing(queue, ("a", token), report)
    assert queue.acknowledge(claim).kind == "completed"


@by_report
def test_the_token_of_another_job_is_stale(queue, claim, report):
    queue.enqueue(job_id="b")
    other = claim_one(queue, "b")
    changes_nothing(queue, ("a", other.lease_token), report)
    with pytest.raises(StaleClaim):
        queue.settle(("b", claim.lease_token), report)
    assert queue.read("b").state == "running"
    assert queue.acknowledge(claim).kind == queue.acknowledge(other).kind == "completed"


@by_report
def test_a_job_that_was_never_claimed_cannot_be_settled(queue, report):
    queue.enqueue(job_id="a")
    for token in ("", "None", "token"):
        changes_nothing(queue, ("a", token), report)


@pytest.mark.parametrize("first", FINAL, ids=lambda report: report.kind)
@by_report
def test_nothing_overwrites_an_outcome(store, queue, claim, first, report):
    assert queue.settle(claim, first).kind == first.kind
    before = everything(queue.read("a"))
    # The holder is told again what was recorded, whatever it says now.
    assert queue.settle(claim, report).kind == first.kind
    with pytest.raises(StaleClaim):
        queue.settle(("a", "another token"), report)
    store.advance(LEASE + 1)
    assert store.connect().settle(("a", claim.lease_token), report).kind == first.kind
    assert queue.recover() == ((), ())
    assert everything(queue.read("a")) == before


@pytest.mark.parametrize("first", FINAL, ids=lambda report: report.kind)
def test_a_repeated_settle_of_a_settled_job_returns_what_was_recorded(store, queue, claim, first):
    recorded = queue.settle(claim, first)
    for _ in range(2):
        assert queue.settle(claim, first) == recorded
    assert store.reopen().settle(claim, first) == recorded
    store.advance(10 * LEASE)
    assert store.connect().settle(("a", claim.lease_token), first) == recorded


@by_put_back
def test_a_repeated_settle_of_a_waiting_job_returns_what_was_recorded(store, queue, claim, report, kind):
    recorded = queue.settle(claim, report)
    assert recorded.kind == kind
    before = everything(queue.read("a"))
    assert queue.settle(claim, report) == recorded
    assert store.reopen().settle(("a", claim.lease_token), report) == recorded
    assert everything(store.connect().read("a")) == before
    assert before["attempts"] == 1
    assert before["given_back"] == (0 if kind == "retried" else 1)


def claimed_again(store, queue, claim, report):
    queue.settle(claim, report)
    store.advance(101)
    return claim_one(queue, "a", lease=LEASE)


@by_put_back
def test_a_repeated_settle_of_a_job_that_runs_again_returns_what_was_recorded(store, queue, claim, report, kind):
    second = claimed_again(store, queue, claim, report)
    before = everything(queue.read("a"))
    for named in (claim, ("a", claim.lease_token)):
        again = queue.settle(named, report)
        assert (again.kind, again.available_at) == (kind, None)
    assert everything(queue.read("a")) == before
    assert queue.acknowledge(second).kind == "completed"


@by_put_back
def test_a_repeated_settle_of_a_job_that_was_recovered_since_returns_what_was_recorded(
    store, queue, claim, report, kind
):
    claimed_again(store, queue, claim, report)
    store.advance(LEASE + 1)
    assert queue.recover() == (("a",), ())
    before = everything(queue.read("a"))
    assert queue.settle(claim, report).kind == kind
    assert everything(queue.read("a")) == before


@by_put_back
def test_a_repeated_settle_of_a_job_that_was_interrupted_since_returns_what_was_recorded(store, queue, report, kind):
    queue.ingest(Job(job_id="a", max_attempts=5, max_recoveries=0))
    claim = claim_one(queue, "a")
    claimed_again(store, queue, claim, report)
    store.advance(LEASE + 1)
    assert queue.recover() == ((), ("a",))
    before = everything(queue.read("a"))
    assert queue.settle(claim, report).kind == kind
    assert everything(queue.read("a")) == before


@by_put_back
def test_only_the_latest_ended_claim_is_remembered(store, queue, claim, report, kind):
    """A job keeps one token. Once another holder has ended a claim of it, an earlier one is history, and told so."""
    assert kind != "stale"
    second = claimed_again(store, queue, claim, report)
    assert queue.acknowledge(second, "theirs").kind == "completed"
    changes_nothing(queue, claim, report)


@by_put_back
def test_the_lost_claim_in_between_stays_stale(store, queue, claim, report, kind):
    assert queue.settle(claim, report).kind == kind
    store.advance(101)
    lost = claim_one(queue, "a")
    store.advance(LEASE + 1)
    third = claim_one(queue, "a")
    for late in REPORTS:
        changes_nothing(queue, lost, late)
    queue.acknowledge(third)
    for late in REPORTS:
        changes_nothing(queue, lost, late)


def test_one_settle_call_may_name_a_claim_twice(queue, claim):
    first, second = queue.settle_many([(claim, Completed(1)), (claim, Failed("late"))])
    assert (first.kind, second.kind) == ("completed", "completed")
    assert queue.read("a").outcome == Completed(1)
