"""Recover: lost claims are put back, or settled ``interrupted``; nothing else is touched."""

import pytest
from steps import LEASE, claim_one, everything

from bandog import Completed, InvalidJob, Job, StaleClaim


def test_nothing_lost_is_nothing_recovered(queue):
    assert queue.recover() == ((), ())
    queue.ingest_many(
        [Job(job_id="queued", queue="a"), Job(job_id="later", queue="a", delay=99), Job(job_id="running")]
    )
    claim_one(queue, "running", queues="default")
    before = [everything(queue.read(job_id)) for job_id in ("queued", "later", "running")]
    assert queue.recover() == ((), ())
    assert [everything(queue.read(job_id)) for job_id in ("queued", "later", "running")] == before


def test_a_lost_claim_is_put_back_with_what_happened(store, queue):
    queue.enqueue(job_id="a", queue="mail", lane="acme", priority=4)
    lost = claim_one(queue, "a", worker="w-1")
    store.advance(LEASE + 1)
    assert queue.recover() == (("a",), ())
    record = queue.read("a")
    assert (record.state, record.attempts, record.given_back, record.recoveries) == ("queued", 1, 0, 1)
    assert (record.queue, record.lane, record.priority) == ("mail", "acme", 4)
    assert store.is_about(record.available_at, store.now())
    assert "w-1" in record.error
    assert lost.lease_token not in record.error
    again = claim_one(queue, "a")
    assert (again.attempt, again.recoveries) == (2, 1)
    assert again.last_error == record.error


def test_a_lost_claim_without_budget_is_interrupted_and_not_run_again(store, queue):
    queue.enqueue(job_id="a", max_recoveries=0)
    claim_one(queue, "a", worker="w-1")
    store.advance(LEASE + 1)
    assert queue.recover() == ((), ("a",))
    record = queue.read("a")
    assert (record.state, record.outcome.kind, record.worker, record.attempts) == ("settled", "interrupted", "w-1", 1)
    assert "w-1" in record.outcome.reason
    assert store.is_about(record.settled_at, store.now())
    before = everything(record)
    store.advance(10 * LEASE)
    reopened = store.reopen()
    assert reopened.claim() == []
    assert reopened.recover() == ((), ())
    assert everything(reopened.read("a")) == before


def test_a_claim_that_still_holds_is_left_alone(store, queue):
    queue.ingest_many([Job(job_id="long"), Job(job_id="short")])
    holder = claim_one(queue, "long", lease=10 * LEASE)
    claim_one(queue, "short", lease=LEASE)
    store.advance(LEASE + 1)
    assert queue.recover() == (("short",), ())
    assert queue.read("long").state == "running"
    assert queue.acknowledge(holder).kind == "completed"


def test_a_renewed_claim_is_not_recovered(store, queue):
    queue.enqueue(job_id="a")
    claim = claim_one(queue, "a")
    store.advance(LEASE - 10)
    queue.renew(claim, lease=LEASE)
    store.advance(20)
    assert queue.recover() == ((), ())
    store.advance(LEASE)
    assert queue.recover() == (("a",), ())


def test_an_outcome_that_came_in_time_is_never_overwritten(store, queue):
    """C05: what was lost is looked up and dealt with in one step."""
    queue.ingest_many([Job(job_id="finished"), Job(job_id="reclaimed")])
    first, second = queue.claim(limit=2, lease=LEASE)
    store.advance(LEASE - 10)
    queue.acknowledge(first, "in time")
    queue.release(second)
    holder = claim_one(queue, "reclaimed")
    store.advance(20)
    before = everything(queue.read("finished")), everything(queue.read("reclaimed"))
    for recovering in (queue, store.connect()):
        assert recovering.recover() == ((), ())
    assert (everything(queue.read("finished")), everything(queue.read("reclaimed"))) == before
    assert queue.read("finished").outcome == Completed("in time")
    assert queue.acknowledge(holder).kind == "completed"


def test_a_lost_claim_is_recovered_once(store, queue):
    other = store.connect()
    queue.enqueue(job_id="a", max_recoveries=5)
    claim_one(queue, "a")
    store.advance(LEASE + 1)
    assert queue.recover() == (("a",), ())
    assert other.recover() == queue.recover() == ((), ())
    assert queue.read("a").recoveries == 1


def test_recovery_goes_by_the_longest_lost_up_to_the_limit(store, queue):
    for number in range(7):
        queue.enqueue(job_id=f"{number}")
        claim_one(queue, f"{number}", lease=LEASE)
        store.advance(1)
    store.advance(LEASE + 10)
    assert queue.recover(limit=3) == (("0", "1", "2"), ())
    assert queue.recover(limit=1) == (("3",), ())
    assert queue.recover() == (("4", "5", "6"), ())


def test_a_claim_recovers_a_hundred_at_most_and_the_next_one_goes_on(store, queue):
    queue.ingest_many(Job(job_id=f"{number:03}") for number in range(250))
    assert len(queue.claim(limit=250, lease=LEASE)) == 250
    store.advance(LEASE + 1)
    counts = [len(queue.claim(limit=1000, lease=10 * LEASE)) for _ in range(4)]
    assert counts == [100, 100, 50, 0]


def test_recovery_reports_both_kinds_at_once(store, queue):
    queue.ingest_many(
        [
            Job(job_id="back"),
            Job(job_id="ends", max_recoveries=0),
            Job(job_id="once", max_attempts=1),
            Job(job_id="tries", max_attempts=2),
        ]
    )
    assert len(queue.claim(limit=4, lease=LEASE)) == 4
    store.advance(LEASE + 1)
    recovered, interrupted = queue.recover()
    assert (set(recovered), set(interrupted)) == ({"back", "tries"}, {"ends", "once"})


def test_recovery_works_after_the_process_is_gone_for_long(store):
    queue = store.connect()
    queue.ingest_many(Job(job_id=f"{number}") for number in range(3))
    lost = queue.claim(worker="w1", limit=3, lease=LEASE)
    queue = store.reopen()
    store.advance(10 * LEASE)
    # The same name again: claims hold by their token, never by it.
    claims = queue.claim(worker="w1", limit=9, lease=LEASE)
    assert [claim.job_id for claim in claims] == ["0", "1", "2"]
    for claim in lost:
        with pytest.raises(StaleClaim):
            queue.renew(claim)
        with pytest.raises(StaleClaim):
            queue.acknowledge(claim)


@pytest.mark.parametrize("limit", [-1, 2**32, True, 1.0, "3", None], ids=repr)
def test_a_limit_that_is_not_allowed_is_named(store, queue, limit):
    queue.enqueue(job_id="a")
    claim_one(queue, "a")
    store.advance(LEASE + 1)
    with pytest.raises(InvalidJob) as caught:
        queue.recover(limit)
    assert caught.value.field == "limit"
    assert queue.read("a").state == "running"
