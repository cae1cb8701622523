"""Claim: who gets which job, in which order."""

import random
from datetime import timedelta

import pytest
from steps import LEASE, Background, claim_one, claimed_ids

from bandog import InvalidJob, Job


def ids(claims):
    return [claim.job_id for claim in claims]


def test_a_claim_carries_what_an_executor_needs(store, queue):
    queue.ingest(
        Job(
            job_id="full",
            queue="mail",
            lane="acme",
            priority=-5,
            payload={"to": "ada"},
            max_attempts=3,
            max_recoveries=2,
            timeout=timedelta(minutes=1),
        )
    )
    admitted_at = queue.read("full").admitted_at
    store.advance(10)
    claim = claim_one(queue, "full", worker="w-1")
    assert (claim.queue, claim.lane, claim.priority, claim.payload) == ("mail", "acme", -5, {"to": "ada"})
    assert (claim.attempt, claim.charged, claim.recoveries, claim.last_error) == (1, 1, 0, None)
    assert (claim.max_attempts, claim.max_recoveries, claim.timeout) == (3, 2, 60.0)
    assert claim.admitted_at == admitted_at
    assert store.is_about(claim.claimed_at, store.now())
    assert claim.lease_token
    assert claim.lease_token not in repr(claim)


def test_a_claimed_job_is_running_under_its_worker(store, queue):
    queue.enqueue(job_id="a")
    claim = claim_one(queue, "a", worker="w-1", lease=90)
    record = queue.read("a")
    assert (record.state, record.worker, record.attempts, record.outcome) == ("running", "w-1", 1, None)
    assert record.claimed_at == claim.claimed_at
    assert store.is_about(record.lease_until, store.now() + timedelta(seconds=90))
    assert (record.available_at, record.settled_at) == (None, None)


def test_a_worker_without_a_name_gets_one(queue):
    queue.enqueue(job_id="a")
    claim_one(queue)
    assert queue.read("a").worker


def test_the_default_lease_is_two_minutes(store, queue):
    queue.enqueue(job_id="a")
    queue.claim()
    assert store.is_about(queue.read("a").lease_until, store.now() + timedelta(minutes=2))


def test_a_job_is_given_to_one_claim_only(store, queue):
    other = store.connect()
    queue.ingest_many(Job(job_id=f"{number}") for number in range(20))
    seen = []
    while claims := queue.claim(limit=3) + other.claim(limit=3):
        seen += ids(claims)
    assert sorted(seen, key=int) == [str(number) for number in range(20)]
    assert queue.claim(limit=99) == other.claim(limit=99) == []


def test_every_claim_call_has_a_token_of_its_own(queue):
    queue.ingest_many(Job() for _ in range(6))
    tokens = [{claim.lease_token for claim in queue.claim(limit=2)} for _ in range(3)]
    assert all(len(of_one_call) == 1 for of_one_call in tokens)
    assert len(set.union(*tokens)) == 3


def test_nothing_due_is_an_empty_list(queue):
    assert queue.claim() == []
    assert queue.claim(queues=["no such queue"], limit=50) == []


def test_a_claim_outlives_the_queue_that_made_it(store):
    queue = store.connect()
    queue.enqueue(job_id="a")
    claim = claim_one(queue)
    queue = store.reopen()
    assert queue.claim() == []
    assert queue.renew(claim) is None
    assert queue.acknowledge(claim).kind == "completed"


# The order: priority, then available_at, then admission.


def shuffled_jobs(store, count=120):
    """Jobs with ties in every part of the order, and their ids in the order in which they are to be claimed."""
    chance = random.Random(7)
    start = store.now() - timedelta(days=1)
    jobs = [
        Job(
            job_id=f"job-{number:03}",
            queue=chance.choice(["a", "b", "c", "d"]),
            lane=chance.choice(["x", "y"]),
            priority=chance.choice([-(2**31), -1, 0, 0, 0, 5, 2**31 - 1]),
            available_at=start + timedelta(seconds=chance.randrange(5)),
        )
        for number in range(count)
    ]
    order = sorted(enumerate(jobs), key=lambda pair: (-pair[1].priority, pair[1].available_at, pair[0]))
    return jobs, [job for _, job in order]


@pytest.mark.parametrize("limit", [1, 7, 50, 1000])
def test_the_order_over_all_queues_is_the_same_for_every_limit(store, queue, limit):
    jobs, order = shuffled_jobs(store)
    queue.ingest_many(jobs)
    assert claimed_ids(queue, limit=limit) == [job.job_id for job in order]


@pytest.mark.parametrize("limit", [1, 7, 50])
@pytest.mark.parametrize("queues", ["a", ["a"], ["c", "a"], ("d", "nothing here", "b"), ["a", "b", "c", "d"]], ids=repr)
def test_the_order_over_some_queues_is_the_same_for_every_limit(store, queue, limit, queues):
    jobs, order = shuffled_jobs(store)
    queue.ingest_many(jobs)
    wanted = [job.job_id for job in order if job.queue in queues]
    assert claimed_ids(queue, limit=limit, queues=queues) == wanted
    # What was not asked for is still there.
    assert claimed_ids(queue, limit=limit) == [job.job_id for job in order if job.queue not in queues]


@pytest.mark.parametrize("limit", [1, 2, 7, 50])
def test_a_queue_that_is_named_twice_counts_once(queue, limit):
    queue.ingest_many(Job(job_id=f"{number}", queue="a") for number in range(9))
    assert claimed_ids(queue, limit=limit, queues=["a", "b", "a"]) == [str(number) for number in range(9)]


def test_jobs_admitted_in_one_moment_keep_their_order(queue):
    for number in range(30):
        queue.enqueue(job_id=f"{number:02}", queue=f"q{number % 3}")
    assert claimed_ids(queue, limit=4) == [f"{number:02}" for number in range(30)]


def test_an_urgent_job_overtakes_those_that_came_before(queue):
    queue.ingest_many(Job(job_id=f"usual-{number}") for number in range(5))
    queue.enqueue(job_id="urgent", priority=1)
    queue.enqueue(job_id="idle", priority=-1)
    assert ids(queue.claim(limit=3)) == ["urgent", "usual-0", "usual-1"]


@pytest.mark.parametrize("limit", [1, 50])
def test_a_recovered_urgent_job_takes_the_next_free_place(store, queue, limit):
    queue.enqueue(job_id="urgent", priority=9)
    claim_one(queue, "urgent")
    queue.ingest_many(Job(job_id=f"fresh-{number}") for number in range(60))
    store.advance(LEASE + 1)
    assert ids(queue.claim(limit=limit, lease=LEASE))[0] == "urgent"


@pytest.mark.parametrize("limit", [1, 50])
def test_a_job_that_fails_at_once_goes_behind_those_that_wait(store, queue, limit):
    queue.enqueue(job_id="failing", max_attempts=20)
    store.advance(1)
    queue.ingest_many(Job(job_id=f"waiting-{number}") for number in range(3))
    store.advance(1)
    claim = claim_one(queue, "failing")
    queue.fail(claim, "at once", retry_in=0)
    assert claimed_ids(queue, limit=limit) == ["waiting-0", "waiting-1", "waiting-2", "failing"]


@pytest.mark.parametrize("limit", [1, 50])
def test_jobs_of_a_later_time_do_not_block_a_lower_priority(store, queue, limit):
    queue.ingest_many(Job(job_id=f"later-{number}", priority=9, delay=1000) for number in range(60))
    queue.ingest_many(Job(job_id=f"now-{number}", priority=-9) for number in range(3))
    assert claimed_ids(queue, limit=limit) == ["now-0", "now-1", "now-2"]
    store.advance(1001)
    assert ids(queue.claim(limit=1)) == ["later-0"]


@pytest.mark.parametrize("limit", [1, 50])
def test_jobs_of_a_later_time_do_not_block_their_own_priority(store, queue, limit):
    queue.ingest_many(Job(job_id=f"later-{number}", delay=1000 + number) for number in range(60))
    queue.enqueue(job_id="now")
    assert claimed_ids(queue, limit=limit) == ["now"]
    store.advance(1001)
    assert ids(queue.claim(limit=2)) == ["later-0", "later-1"]


def test_jobs_become_due_in_the_order_of_their_times(store, queue):
    for seconds in (300, 100, 200):
        queue.enqueue(job_id=f"after {seconds}", delay=seconds)
    for seconds in (100, 200, 300):
        assert queue.claim(limit=9) == []
        store.advance(101)
        assert ids(queue.claim(limit=9, lease=5000)) == [f"after {seconds}"]


def test_a_queue_with_no_due_job_does_not_block_another(queue):
    queue.ingest_many(Job(queue="a", delay=1000, priority=3) for _ in range(20))
    queue.enqueue(job_id="due", queue="b")
    assert ids(queue.claim(limit=5)) == ["due"]
    assert queue.claim(queues=["a"], limit=5) == []


def test_a_claim_first_recovers_what_was_lost(store, queue):
    queue.enqueue(job_id="lost")
    claim_one(queue, "lost")
    store.advance(LEASE - 10)
    assert queue.claim() == []
    store.advance(11)
    again = claim_one(queue, "lost")
    assert (again.attempt, again.recoveries) == (2, 1)
    assert again.last_error


def test_a_claim_of_one_queue_recovers_the_others_too(store, queue):
    queue.enqueue(job_id="lost", queue="a")
    claim_one(queue, "lost")
    store.advance(LEASE + 1)
    assert queue.claim(queues="b") == []
    assert queue.read("lost").state == "queued"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("worker", {"worker": ""}),
        ("worker", {"worker": 7}),
        ("worker", {"worker": "a\n"}),
        ("worker", {"worker": "x" * 256}),
        ("queues", {"queues": []}),
        ("queues", {"queues": ""}),
        ("queues", {"queues": [""]}),
        ("queues", {"queues": [None]}),
        ("queues", {"queues": ["a", 1]}),
        ("queues", {"queues": 5}),
        ("limit", {"limit": 0}),
        ("limit", {"limit": -1}),
        ("limit", {"limit": 2**32}),
        ("limit", {"limit": True}),
        ("limit", {"limit": 1.0}),
        ("limit", {"limit": None}),
        ("lease", {"lease": 0.499}),
        ("lease", {"lease": 0}),
        ("lease", {"lease": -1}),
        ("lease", {"lease": float("nan")}),
        ("lease", {"lease": float("inf")}),
        ("lease", {"lease": True}),
        ("lease", {"lease": "60"}),
        ("lease", {"lease": None}),
        ("lease", {"lease": timedelta(milliseconds=499)}),
    ],
    ids=repr,
)
def test_an_argument_that_is_not_allowed_is_named_and_nothing_is_claimed(queue, name, arguments):
    queue.enqueue(job_id="a")
    with pytest.raises(InvalidJob) as caught:
        queue.claim(**arguments)
    assert caught.value.field == name
    assert (queue.read("a").state, queue.read("a").attempts) == ("queued", 0)


@pytest.mark.parametrize("lease", [0.5, 1, timedelta(milliseconds=500), timedelta(days=3650)], ids=repr)
def test_leases_that_are_allowed(queue, lease):
    queue.enqueue(job_id="a")
    assert ids(queue.claim(lease=lease)) == ["a"]


def test_the_largest_limit_is_no_reservation(queue):
    queue.enqueue(job_id="a")
    assert ids(queue.claim(limit=2**32 - 1)) == ["a"]


def test_of_many_who_claim_at_once_each_job_goes_to_one(store):
    queues = [store.connect() for _ in range(3)]
    count = 240
    queues[0].ingest_many(Job(job_id=f"{number}") for number in range(count))
    threads = [
        Background(lambda queue=queue, limit=limit: claimed_ids(queue, limit=limit))
        for limit in (1, 7)
        for queue in queues
    ]
    claimed = [job_id for thread in threads for job_id in thread.join()]
    assert sorted(claimed, key=int) == [f"{number}" for number in range(count)]
    assert all(queues[0].read(f"{number}").attempts == 1 for number in range(0, count, 10))
