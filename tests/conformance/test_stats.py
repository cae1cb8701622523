"""Stats: what there is to do and what was done, counted up to a bound."""

import pytest
from steps import LEASE, claim_one

from bandog import Completed, Failed, InvalidJob, Job, OutcomeUnknown, QueueStats, Snapshot, Stats

KINDS = {"completed", "failed", "cancelled", "outcome_unknown", "interrupted"}
NOTHING = dict.fromkeys(KINDS, 0)


def test_an_empty_store_has_no_queues_and_no_outcomes(queue):
    stats = queue.stats()
    assert isinstance(stats, Stats)
    assert stats == Stats({}, NOTHING, 10_000)


def test_the_oldest_snapshot_is_told_where_the_store_is_a_server(store, queue):
    queue.enqueue()
    snapshot = queue.stats().oldest_snapshot
    if store.kind.startswith("sqlite"):
        assert snapshot is None, "readers of a file keep nothing from being removed"
    else:
        # Who has one at this moment is the server's affair; tests/postgres/test_health.py has somebody hold one.
        assert snapshot is None or (isinstance(snapshot, Snapshot) and snapshot.transactions >= 0)
    assert Stats(oldest_snapshot=Snapshot("slot", "a", None, None, 9)) == Stats(), "no part of what is compared"


def test_queued_due_and_running_jobs_are_counted_by_queue(store, queue):
    queue.ingest_many(
        [
            *(Job(queue="mail", priority=number % 3) for number in range(6)),
            *(Job(queue="mail", delay=100, priority=9) for _ in range(2)),
            *(Job(queue="sms", lane=f"{number}") for number in range(4)),
            *(Job(queue="later", delay=100) for _ in range(3)),
        ]
    )
    since = store.now()
    assert len(queue.claim(queues="sms", limit=1, lease=LEASE)) == 1
    assert len(queue.claim(queues="mail", limit=2, lease=LEASE)) == 2
    stats = queue.stats()
    assert set(stats.queues) == {"later", "mail", "sms"}
    counts = {name: (each.queued, each.due, each.running) for name, each in stats.queues.items()}
    assert counts == {"mail": (6, 4, 2), "sms": (3, 3, 1), "later": (3, 0, 0)}
    assert store.is_about(stats.queues["mail"].oldest_due, since)
    assert stats.queues["later"].oldest_due is None
    assert stats.outcomes == NOTHING
    assert store.reopen().stats() == stats


def test_outcomes_are_counted_by_kind(store, queue):
    reports = [Completed(), Completed(1), Failed("why"), OutcomeUnknown()]
    queue.ingest_many(Job(max_recoveries=0) for _ in range(len(reports) + 2))
    claims = queue.claim(limit=len(reports) + 1, lease=LEASE)
    queue.settle_many(zip(claims, reports, strict=False))
    (left,) = queue.jobs(state="queued")
    queue.cancel(left.job_id)
    store.advance(LEASE + 1)
    queue.recover()
    stats = queue.stats()
    assert stats.outcomes == {
        "completed": 2,
        "failed": 1,
        "outcome_unknown": 1,
        "cancelled": 1,
        "interrupted": 1,
    }
    assert stats.queues == {}, "a queue without work is not listed"


def test_a_queue_that_only_runs_is_listed(queue):
    queue.enqueue(job_id="a", queue="mail")
    claim = claim_one(queue, "a")
    assert queue.stats().queues == {"mail": QueueStats(0, 0, 1, None)}
    queue.acknowledge(claim)
    assert queue.stats().queues == {}


@pytest.mark.parametrize("order", [(9, 0), (0, 9)], ids=["urgent first", "urgent last"])
def test_the_oldest_due_job_counts_whatever_its_priority(store, queue, order):
    queue.enqueue(queue="mail", priority=order[0])
    oldest = store.now()
    store.advance(50)
    queue.enqueue(queue="mail", priority=order[1])
    store.advance(50)
    mail = queue.stats().queues["mail"]
    assert (mail.queued, mail.due) == (2, 2)
    assert store.is_about(mail.oldest_due, oldest)


def test_a_job_becomes_due_when_its_time_has_come(store, queue):
    queue.enqueue(queue="mail", delay=100)
    due = store.now()
    assert queue.stats().queues["mail"] == QueueStats(1, 0, 0, None)
    store.advance(101)
    mail = queue.stats().queues["mail"]
    assert (mail.queued, mail.due) == (1, 1)
    assert (mail.oldest_due - due).total_seconds() == pytest.approx(100, abs=1)


def test_a_lost_claim_is_running_until_it_is_recovered(store, queue):
    queue.enqueue(queue="mail")
    claim_one(queue)
    store.advance(LEASE + 1)
    assert queue.stats().queues["mail"].running == 1
    queue.recover()
    assert queue.stats().queues["mail"].running == 0
    assert queue.stats().queues["mail"].queued == 1


@pytest.mark.parametrize("bound", [1, 5, 29, 30, 31, 10_000, 2**32 - 1])
def test_no_count_goes_beyond_the_bound_and_one_below_it_is_exact(queue, bound):
    queue.ingest_many([*(Job(queue="mail", priority=number % 3) for number in range(30)), *(Job() for _ in range(80))])
    queue.settle_many((claim, Completed()) for claim in queue.claim(queues="default", limit=30))
    queue.settle_many((claim, Failed("why")) for claim in queue.claim(queues="default", limit=30))
    assert len(queue.claim(queues="default", limit=20)) == 20
    stats = queue.stats(bound=bound)
    assert stats.bound == bound
    mail = stats.queues["mail"]
    assert (mail.queued, mail.due) == (min(30, bound), min(30, bound))
    assert (stats.outcomes["completed"], stats.outcomes["failed"]) == (min(30, bound), min(30, bound))
    # What is running is as many as there are claims, and counted in full.
    assert stats.queues["default"].running == 20


def test_the_oldest_due_job_is_known_however_small_the_bound(store, queue):
    oldest = store.now()
    queue.ingest_many(Job(queue="mail", priority=-3) for _ in range(5))
    store.advance(10)
    queue.ingest_many(Job(queue="mail", priority=3) for _ in range(5))
    assert store.is_about(queue.stats(bound=1).queues["mail"].oldest_due, oldest)


def test_purged_jobs_are_not_counted(store, queue):
    queue.ingest_many(Job() for _ in range(5))
    queue.settle_many((claim, Completed()) for claim in queue.claim(limit=5))
    store.advance(1)
    queue.purge(older_than=0, limit=2)
    assert queue.stats().outcomes["completed"] == 3


@pytest.mark.parametrize("bound", [0, -1, 2**32, True, 1.0, "3", None], ids=repr)
def test_a_bound_that_is_not_allowed_is_named(queue, bound):
    with pytest.raises(InvalidJob) as caught:
        queue.stats(bound=bound)
    assert caught.value.field == "bound"
    assert "bound" in str(caught.value)
