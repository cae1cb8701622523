"""The order of claiming under pressure (C53): nothing overtakes by having failed, and what is urgent stays urgent."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from steps import LEASE, claim_one, claimed_ids

from bandog import Failed, Job, Release, Snooze


def mixture(store, queue):
    """Jobs of every kind of past and priority, in three queues."""
    priorities = (0, 5, -5, 9, 0, 5)
    queue.ingest_many(
        Job(job_id=f"{number:03}", queue="abc"[number % 3], priority=priorities[number % 6], max_attempts=9)
        for number in range(120)
    )
    store.advance(1)
    claims = queue.claim(limit=60, lease=LEASE)
    reports = [Failed("again", retry_in=0), Failed("again", retry_in=3), Snooze(0), Release(), Snooze(2)]
    for number, claim in enumerate(claims[:50]):
        queue.settle(claim, reports[number % 5])
        store.advance(0.01)
    store.advance(LEASE + 1)
    assert len(queue.recover()[0]) == 10
    store.advance(1)
    queue.ingest_many(
        Job(job_id=f"new-{number:03}", queue="abc"[number % 3], priority=number % 2) for number in range(20)
    )
    store.advance(10)


@pytest.mark.parametrize("queues", [None, ["a"], ["c", "a"]], ids=repr)
def test_the_order_is_the_same_for_single_claims_and_batches(store, queues):
    mixture(store, store.connect())
    orders = []
    for limit in (1, 50):
        queue = store.connect()
        ids = []
        while claims := queue.claim(limit=limit, queues=queues, lease=LEASE):
            ids.append([(claim.job_id, claim) for claim in claims])
        order = [job_id for batch in ids for job_id, _ in batch]
        records = {job_id: queue.read(job_id) for job_id in order}
        orders.append(order)
        # The priorities never go up.
        priorities = [records[job_id].priority for job_id in order]
        assert priorities == sorted(priorities, reverse=True)
        # Hand all of them back, each at its own moment, so that the second pass finds the order of the first.
        for batch in ids:
            for _, claim in batch:
                queue.release(claim)
                store.advance(0.001)
        store.advance(1)
    assert orders[0] == orders[1]
    assert len(orders[0]) == len(set(orders[0])) > 40


@pytest.mark.parametrize("queues", [None, ["a"], ["a", "b"]], ids=repr)
@pytest.mark.parametrize("again", range(3))
def test_what_was_claimed_from_so_far_hides_nothing(store, queue, queues, again):
    """A store may remember what it claimed from. What comes beside that has its turn all the same."""
    for number in range(10 ** (again + 1) // 10):
        queue.enqueue(number, queue="a")
        assert len(queue.claim(queues=queues, lease=LEASE)) == 1
    beside = [
        Job(job_id="plain", queue="a"),
        Job(job_id="low", queue="a", priority=-1),
        Job(job_id="high", queue="a", priority=1),
        Job(job_id="late", queue="a", available_at=store.now() - timedelta(hours=1)),
        Job(job_id="elsewhere", queue="b", priority=2),
        Job(job_id="far", queue="b", delay=3600),
    ]
    queue.ingest_many(beside)
    store.advance(0.001)
    expected = [*(["elsewhere"] if queues != ["a"] else []), "high", "late", "plain", "low"]
    assert claimed_ids(queue, limit=1, queues=queues) == expected


@pytest.mark.parametrize(
    "beside",
    [
        {"queue": "a", "priority": -1},
        {"queue": "a", "priority": 1},
        {"queue": "b"},
        {"queue": "0"},
        {"queue": "a", "available_at": datetime(2001, 1, 1, tzinfo=UTC)},
    ],
    ids=repr,
)
@pytest.mark.parametrize("queues", [None, ["b", "a", "0"]], ids=repr)
def test_one_claim_takes_what_is_due_in_several_places(store, queue, queues, beside):
    queue.enqueue(queue="a")
    assert len(queue.claim(queues=queues, lease=LEASE)) == 1
    queue.ingest_many([Job(job_id="plain", queue="a"), Job(job_id="beside", **beside)])
    store.advance(0.001)
    claims = queue.claim(queues=queues, limit=5, lease=LEASE)
    assert sorted(claim.job_id for claim in claims) == ["beside", "plain"]


def test_an_urgent_job_that_was_recovered_is_the_next_one(store, queue):
    queue.ingest_many([Job(job_id="urgent", priority=9), *(Job(job_id=f"{number}") for number in range(50))])
    claim_one(queue, "urgent", lease=LEASE)
    for second in range(int(LEASE) + 1):
        store.advance(1)
        queue.enqueue(job_id=f"fresh-{second}")
    recovered_and_claimed = claim_one(queue, "urgent", lease=LEASE)
    assert recovered_and_claimed.attempt == 2


@pytest.mark.parametrize("limit", [1, 5])
def test_a_job_that_fails_at_once_runs_no_more_often_than_its_neighbours(store, queue, limit):
    """Its zero delay counts from its failure, so that it stands behind what was due before."""
    queue.enqueue(job_id="hasty", max_attempts=20)
    waited = []
    admitted = 0
    ran = []
    for _ in range(250):
        for _ in range(limit):
            store.advance(0.001)
            queue.enqueue(admitted, job_id=f"{admitted}")
            admitted += 1
        store.advance(0.001)
        for claim in queue.claim(limit=limit, lease=LEASE):
            ran.append(claim.job_id)
            if claim.job_id == "hasty":
                queue.fail(claim, "at once", retry_in=0)
            else:
                waited.append(admitted - claim.payload)
                queue.acknowledge(claim)
            store.advance(0.001)
    hasty = [place for place, job_id in enumerate(ran) if job_id == "hasty"]
    assert len(hasty) == 20, "all its attempts were made"
    assert queue.read("hasty").outcome == Failed("at once")
    # In between, everything that was due before ran.
    assert all(after - before > 1 for before, after in itertools.pairwise(hasty))
    others = [job_id for job_id in ran if job_id != "hasty"]
    assert others == sorted(others, key=int)
    assert max(waited) <= limit + 20 + 1


def test_a_low_priority_waits_for_as_long_as_there_is_a_higher_one(store, queue):
    """There is no ageing: README says so."""
    queue.enqueue(job_id="low", priority=-1)
    for number in range(50):
        queue.enqueue(job_id=f"{number}")
        claim_one(queue, f"{number}")
        store.advance(1)
    assert claim_one(queue, "low").attempt == 1


def test_a_put_back_job_stands_behind_what_is_due_and_before_what_comes_later(store, queue):
    for report in (Failed("x", retry_in=0), Snooze(0), Release()):
        queue.enqueue(job_id=f"first {report.kind}", max_attempts=9)
        claim = claim_one(queue)
        store.advance(1)
        queue.enqueue(job_id=f"second {report.kind}")
        store.advance(1)
        queue.settle(claim, report)
        store.advance(1)
        queue.enqueue(job_id=f"third {report.kind}")
        store.advance(1)
        kind = report.kind
        assert claimed_ids(queue) == [f"second {kind}", f"first {kind}", f"third {kind}"]
