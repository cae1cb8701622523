"""Requeue: a dead letter gets a new life, with all its attempts and none of its old claims."""

from datetime import timedelta

import pytest
from steps import LEASE, claim_one, claimed_ids, everything

from bandog import (
    Backoff,
    Cancelled,
    Completed,
    Failed,
    InvalidJob,
    Job,
    JobConflict,
    JobNotFound,
    OutcomeUnknown,
    RequeueRefused,
    Snooze,
    StaleClaim,
)


def dead(queue, job_id="a", **fields):
    """The claim that made a dead letter."""
    queue.ingest(Job(job_id=job_id, **fields))
    claim = claim_one(queue, job_id)
    assert queue.fail(claim, "why", retry=False).kind == "failed"
    return claim


@pytest.mark.parametrize("how", ["failed", "interrupted"])
def test_a_dead_letter_is_queued_at_once_as_it_was_ingested(store, queue, how):
    queue.enqueue({"n": 1}, job_id="a", queue="mail", lane="acme", priority=7, max_recoveries=0)
    lost = claim_one(queue, "a")
    if how == "failed":
        assert queue.fail(lost, "why").kind == "failed"
    else:
        store.advance(LEASE + 1)
        assert queue.recover() == ((), ("a",))
    store.advance(1000)
    admitted_at = queue.read("a").admitted_at
    assert queue.requeue("a") is None
    record = queue.read("a")
    assert (record.state, record.outcome, record.settled_at, record.worker) == ("queued", None, None, None)
    assert (record.queue, record.lane, record.priority, record.payload) == ("mail", "acme", 7, {"n": 1})
    assert (record.admitted_at, record.max_recoveries) == (admitted_at, 0)
    assert store.is_about(record.available_at, store.now())
    claim = claim_one(queue, "a")
    assert (claim.queue, claim.lane, claim.priority, claim.payload) == ("mail", "acme", 7, {"n": 1})
    assert queue.acknowledge(claim, "at last").kind == "completed"
    assert store.reopen().read("a").outcome == Completed("at last")


def test_all_attempts_are_there_again_and_their_numbers_go_on(store, queue):
    queue.enqueue(job_id="a", max_attempts=2, backoff=Backoff(base=1, cap=60))
    for life in range(3):
        for charged in (1, 2):
            claim = claim_one(queue, "a")
            assert (claim.attempt, claim.charged) == (2 * life + charged, charged)
            settlement = queue.fail(claim, "why")
            assert settlement.kind == ("retried" if charged == 1 else "failed")
            if charged == 1:
                # The wait starts over, too.
                assert store.is_about(settlement.available_at, store.now() + timedelta(seconds=1))
                store.advance(1.001)
        assert queue.claim() == []
        assert queue.read("a").attempts == 2 * (life + 1)
        queue.requeue("a")
        record = queue.read("a")
        assert (record.attempts, record.charged, record.recoveries) == (2 * (life + 1), 0, 0)


def test_all_recoveries_are_there_again(store, queue):
    queue.enqueue(job_id="a")
    for life in range(2):
        for recoveries in (0, 1):
            assert claim_one(queue, "a").recoveries == recoveries
            store.advance(LEASE + 1)
            assert queue.recover() == ((("a",), ()) if recoveries == 0 else ((), ("a",)))
        queue.requeue("a")
        assert queue.read("a").recoveries == 0
        assert queue.read("a").attempts == 2 * (life + 1)


def test_the_backoff_starts_over(store, queue):
    queue.enqueue(job_id="a", max_attempts=3, backoff=Backoff(base=10, cap=1000))
    waits = []
    for attempt in range(1, 7):
        claim = claim_one(queue, "a")
        settlement = queue.fail(claim, "why")
        if attempt % 3:
            waits.append(round((settlement.available_at - store.now()).total_seconds()))
            store.advance(waits[-1] + 1)
        else:
            queue.requeue("a")
    assert waits == [10, 20, 10, 20]


def test_the_tokens_of_its_former_claims_stay_invalid(store, queue):
    queue.enqueue(job_id="a", max_attempts=2)
    former = [claim_one(queue, "a")]
    queue.fail(former[0], "first", retry_in=0)
    store.advance(1)
    former.append(claim_one(queue, "a"))
    queue.fail(former[1], "second")
    queue.requeue("a")
    for state in ("queued", "running"):
        before = everything(queue.read("a"))
        assert before["state"] == state
        for claim in former:
            for name in (claim, (claim.job_id, claim.lease_token)):
                with pytest.raises(StaleClaim):
                    queue.renew(name)
                for report in (Completed(), Failed("late"), Snooze(1)):
                    with pytest.raises(StaleClaim):
                        queue.settle(name, report)
        assert everything(queue.read("a")) == before
        if state == "queued":
            holder = claim_one(queue, "a")
            assert holder.lease_token not in {claim.lease_token for claim in former}
    assert queue.acknowledge(holder).kind == "completed"


def test_it_waits_its_turn_behind_what_is_due_already(store, queue):
    dead(queue, "a")
    store.advance(1)
    queue.enqueue(job_id="b")
    store.advance(1)
    queue.requeue("a")
    store.advance(1)
    queue.ingest_many([Job(job_id="c"), Job(job_id="urgent", priority=1)])
    assert claimed_ids(queue) == ["urgent", "b", "a", "c"]


def test_a_request_to_cancel_it_is_forgotten(store, queue):
    queue.enqueue(job_id="a", max_attempts=5)
    claim = claim_one(queue, "a")
    queue.cancel("a", "stop")
    queue.fail(claim, "stopped")
    queue.requeue("a")
    record = queue.read("a")
    assert (record.cancel_requested_at, record.cancel_reason) == (None, None)
    again = claim_one(queue, "a")
    assert queue.renew(again) is None
    assert queue.settle(again, Snooze(0)).kind == "snoozed"
    store.advance(1)
    assert claimed_ids(queue) == ["a"]


def test_a_replay_of_the_job_is_a_duplicate_in_its_new_life_too(queue):
    dead(queue, payload=1)
    queue.requeue("a")
    assert queue.enqueue(1, job_id="a").kind == "duplicate"
    with pytest.raises(JobConflict):
        queue.enqueue(2, job_id="a")
    assert claimed_ids(queue) == ["a"]


def test_it_is_no_dead_letter_any_more(queue):
    dead(queue, "a")
    dead(queue, "b")
    queue.requeue("a")
    assert [record.job_id for record in queue.dead_letters()] == ["b"]
    assert queue.stats().outcomes["failed"] == 1
    assert queue.has_pending_work()


# Force


SETTLED = {
    "completed": Completed("done"),
    "cancelled": Cancelled("on request"),
    "outcome_unknown": OutcomeUnknown({"provider": "no answer"}),
}


def refused(queue, kind, *, force):
    before = everything(queue.read("a"))
    with pytest.raises(RequeueRefused) as caught:
        queue.requeue("a", force=force)
    assert (caught.value.job_id, caught.value.outcome) == ("a", kind)
    assert everything(queue.read("a")) == before
    return str(caught.value)


@pytest.mark.parametrize("kind", ["cancelled", "outcome_unknown"])
def test_another_outcome_is_requeued_with_force_only(queue, kind):
    queue.enqueue(job_id="a")
    queue.settle(claim_one(queue, "a"), SETTLED[kind])
    message = refused(queue, kind, force=False)
    assert "force" in message
    assert kind in message
    queue.requeue("a", force=True)
    record = queue.read("a")
    assert (record.state, record.outcome, record.charged, record.error) == ("queued", None, 0, None)
    assert queue.acknowledge(claim_one(queue, "a")).kind == "completed"


@pytest.mark.parametrize("force", [False, True])
def test_a_completed_job_is_never_run_again(queue, force):
    queue.enqueue(job_id="a")
    queue.acknowledge(claim_one(queue, "a"), "done")
    message = refused(queue, "completed", force=force)
    assert "completed" in message
    assert "job_id" in message
    assert queue.claim() == []


def test_a_job_that_was_cancelled_before_it_ran_is_requeued_with_force(queue):
    queue.enqueue(job_id="a", delay=1000)
    queue.cancel("a")
    queue.requeue("a", force=True)
    assert claim_one(queue, "a").attempt == 1


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("state", ["queued", "later", "running"])
def test_a_job_without_an_outcome_needs_none_and_is_left_alone(queue, state, force):
    queue.enqueue(job_id="a", delay=1000 if state == "later" else None)
    if state == "running":
        claim_one(queue, "a")
    refused(queue, None, force=force)


def test_a_dead_letter_is_requeued_once(queue):
    dead(queue)
    queue.requeue("a")
    refused(queue, None, force=False)
    assert claimed_ids(queue) == ["a"]


def test_force_changes_nothing_for_a_dead_letter(queue):
    dead(queue)
    queue.requeue("a", force=True)
    assert claimed_ids(queue) == ["a"]


@pytest.mark.parametrize("force", [False, True])
def test_a_job_that_is_not_there_is_an_error(queue, force):
    with pytest.raises(JobNotFound) as caught:
        queue.requeue("nobody", force=force)
    assert caught.value.job_id == "nobody"


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("job_id", {"job_id": None}),
        ("job_id", {"job_id": 5}),
        ("job_id", {"job_id": "lone \ud800"}),
        ("force", {"force": None}),
        ("force", {"force": 1}),
        ("force", {"force": "yes"}),
    ],
    ids=ascii,
)
def test_an_argument_that_is_not_allowed_is_named_and_nothing_is_requeued(queue, field, arguments):
    dead(queue)
    with pytest.raises(InvalidJob) as caught:
        queue.requeue(**{"job_id": "a", **arguments})
    assert caught.value.field == field
    assert field in str(caught.value)
    assert queue.read("a").state == "settled"
