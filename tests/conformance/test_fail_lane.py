"""Fail a lane: its queued jobs are settled ``failed``, so many per call; nothing else is touched."""

import pytest
from steps import LEASE, claim_one, claimed_ids, everything

from bandog import Cancellation, Completed, Failed, FailedLane, InvalidJob, Job, Snooze, StaleClaim

LANES = ["acme", "default"]


def numbered(count, **fields):
    prefix = fields.pop("prefix", "job")
    return [Job(job_id=f"{prefix}-{number:04}", **fields) for number in range(count)]


def outcome(queue, job_id):
    return queue.read(job_id).outcome


@pytest.mark.parametrize("lane", LANES)
def test_every_queued_job_of_the_lane_fails_with_the_reason(store, queue, lane):
    queue.ingest_many(numbered(5, queue="mail", lane=lane))
    queue.ingest_many(numbered(3, prefix="later", queue="mail", lane=lane, delay=1000))
    assert queue.fail_lane("mail", lane, "the customer left") == FailedLane(failed=8, left=0)
    for job_id in [*(f"job-{number:04}" for number in range(5)), "later-0000", "later-0002"]:
        record = queue.read(job_id)
        assert (record.state, record.outcome) == ("settled", Failed("the customer left"))
        assert (record.attempts, record.worker) == (0, None)
        assert store.is_about(record.settled_at, store.now())
    store.advance(2000)
    assert queue.claim() == []
    assert not queue.has_pending_work()
    assert store.reopen().read("job-0000").outcome == Failed("the customer left")


@pytest.mark.parametrize("lane", LANES)
def test_an_empty_lane_is_nothing_to_do(queue, lane):
    assert queue.fail_lane("mail", lane, "why") == FailedLane(0, 0)
    queue.enqueue(queue="mail", lane=lane)
    assert queue.fail_lane("mail", lane, "why") == FailedLane(1, 0)
    assert queue.fail_lane("mail", lane, "why") == FailedLane(0, 0)


@pytest.mark.parametrize("lane", LANES)
def test_other_lanes_and_other_queues_are_left_alone(queue, lane):
    other_lane = "default" if lane == "acme" else "acme"
    others = [
        Job(job_id="lane", queue="mail", lane=other_lane),
        Job(job_id="queue", queue="sms", lane=lane),
        Job(job_id="case", queue="mail", lane=lane.upper()),
        Job(job_id="space", queue="mail", lane=f"{lane} "),
        Job(job_id="longer", queue="mail", lane=f"{lane}x"),
        Job(job_id="pattern", queue="mail", lane="%"),
    ]
    queue.ingest_many([*others, Job(job_id="a", queue="mail", lane=lane)])
    before = [everything(queue.read(job.job_id)) for job in others]
    assert queue.fail_lane("mail", lane, "why") == FailedLane(1, 0)
    assert [everything(queue.read(job.job_id)) for job in others] == before
    assert queue.fail_lane("mail", "%", "why") == FailedLane(1, 0)
    assert outcome(queue, "longer") is None


@pytest.mark.parametrize("lane", LANES)
def test_running_and_settled_jobs_are_left_alone(queue, lane):
    queue.ingest_many(numbered(3, queue="mail", lane=lane))
    running, done = queue.claim(limit=2)
    queue.acknowledge(done, "in time")
    before = everything(queue.read(running.job_id)), everything(queue.read(done.job_id))
    assert queue.fail_lane("mail", lane, "why") == FailedLane(1, 0)
    assert (everything(queue.read(running.job_id)), everything(queue.read(done.job_id))) == before
    assert queue.renew(running) is None
    assert queue.acknowledge(running).kind == "completed"
    assert outcome(queue, done.job_id) == Completed("in time")


def test_a_running_job_that_is_put_back_afterwards_is_queued_again(store, queue):
    queue.enqueue(job_id="a", queue="mail", lane="acme", max_attempts=9)
    claim = claim_one(queue, "a")
    assert queue.fail_lane("mail", "acme", "why") == FailedLane(0, 0)
    queue.fail(claim, "why", retry_in=0)
    store.advance(1)
    assert queue.read("a").state == "queued"
    assert queue.fail_lane("mail", "acme", "again") == FailedLane(1, 0)
    assert outcome(queue, "a") == Failed("again")


@pytest.mark.parametrize("lane", LANES)
def test_a_call_fails_as_many_as_its_limit_and_says_how_many_are_left(queue, lane):
    queue.ingest_many(numbered(10, queue="mail", lane=lane))
    queue.ingest_many(numbered(5, prefix="other", queue="mail", lane="another"))
    assert queue.fail_lane("mail", lane, "why", limit=4) == FailedLane(4, 6)
    assert queue.fail_lane("mail", lane, "why", limit=1) == FailedLane(1, 5)
    assert queue.fail_lane("mail", lane, "why", limit=5) == FailedLane(5, 0)
    assert queue.fail_lane("mail", lane, "why", limit=5) == FailedLane(0, 0)
    assert len(claimed_ids(queue)) == 5


def test_without_a_limit_a_call_fails_a_thousand(queue):
    queue.ingest_many(numbered(1500, lane="acme"))
    assert queue.fail_lane("default", "acme", "why") == FailedLane(1000, 500)
    assert queue.fail_lane("default", "acme", "why") == FailedLane(500, 0)


def test_the_first_admitted_fail_first_whatever_their_priority_and_schedule(queue):
    """In the default lane, which has no index of its own, no order is promised."""
    lane = "acme"
    jobs = [
        Job(job_id="a", queue="mail", lane=lane, priority=-5),
        Job(job_id="b", queue="mail", lane=lane, priority=9, delay=500),
        Job(job_id="c", queue="mail", lane=lane, priority=0, delay=5),
        Job(job_id="d", queue="mail", lane=lane, priority=9),
        Job(job_id="e", queue="mail", lane=lane, priority=3),
    ]
    queue.ingest_many(jobs)
    for left in range(4, -1, -1):
        assert queue.fail_lane("mail", lane, "why", limit=1) == FailedLane(1, left)
        settled = [job.job_id for job in jobs if outcome(queue, job.job_id)]
        assert settled == [job.job_id for job in jobs][: 5 - left]


def test_jobs_that_were_put_back_fail_with_their_counters(store, queue):
    queue.ingest_many(Job(job_id=job_id, lane="acme", max_attempts=9) for job_id in ("lost", "retried", "snoozed"))
    _, retried, snoozed = queue.claim(limit=3, lease=LEASE)
    queue.fail(retried, "first", retry_in=1000)
    queue.settle(snoozed, Snooze(1000))
    store.advance(LEASE + 1)
    assert queue.recover() == (("lost",), ())
    assert queue.fail_lane("default", "acme", "why") == FailedLane(3, 0)
    found = [queue.read(job_id) for job_id in ("lost", "retried", "snoozed")]
    assert [(record.attempts, record.given_back, record.recoveries) for record in found] == [
        (1, 0, 1),
        (1, 0, 0),
        (1, 1, 0),
    ]
    assert {record.outcome for record in found} == {Failed("why")}


def test_a_lane_that_failed_holds_dead_letters_that_can_be_requeued(queue):
    queue.ingest_many(numbered(3, lane="acme"))
    queue.fail_lane("default", "acme", "why")
    assert [record.job_id for record in queue.dead_letters()] == ["job-0000", "job-0001", "job-0002"]
    queue.requeue("job-0001")
    assert claimed_ids(queue) == ["job-0001"]
    assert queue.cancel("job-0000") == Cancellation("settled", "failed")


def test_the_claim_that_put_a_job_back_can_change_nothing_afterwards(queue):
    queue.enqueue(job_id="a", lane="acme", max_attempts=9)
    claim = claim_one(queue, "a")
    assert queue.fail(claim, "first", retry_in=100).kind == "retried"
    queue.fail_lane("default", "acme", "why")
    before = everything(queue.read("a"))
    # Its own answer is repeated; nothing else happens.
    assert queue.fail(claim, "first", retry_in=100).kind == "retried"
    with pytest.raises(StaleClaim):
        queue.renew(claim)
    assert everything(queue.read("a")) == before


def test_new_jobs_are_welcome_afterwards(queue):
    queue.ingest_many(numbered(2, lane="acme"))
    queue.fail_lane("default", "acme", "why")
    assert queue.enqueue(job_id="new", lane="acme").kind == "admitted"
    assert queue.ingest(Job(job_id="job-0000", lane="acme")).kind == "duplicate"
    assert claimed_ids(queue) == ["new"]


@pytest.mark.parametrize("reason", ["", "lone \ud800", "nul \0", "🐕" * 1000], ids=ascii)
def test_a_reason_of_any_characters_is_kept_or_replaced(queue, reason):
    queue.enqueue(job_id="a", lane="acme")
    assert queue.fail_lane("default", "acme", reason).failed == 1
    kept = outcome(queue, "a").reason
    assert kept == reason or not {"\ud800", "\0"} & set(kept)


WRONG = [
    ("queue", {"queue": ""}),
    ("queue", {"queue": None}),
    ("queue", {"queue": 5}),
    ("queue", {"queue": "x" * 256}),
    ("queue", {"queue": "a\nb"}),
    ("lane", {"lane": ""}),
    ("lane", {"lane": None}),
    ("lane", {"lane": "lone \ud800"}),
    ("lane", {"lane": "x" * 256}),
    ("reason", {"reason": None}),
    ("reason", {"reason": 5}),
    ("limit", {"limit": 0}),
    ("limit", {"limit": -1}),
    ("limit", {"limit": 2**32}),
    ("limit", {"limit": True}),
    ("limit", {"limit": 1.0}),
    ("limit", {"limit": None}),
]


@pytest.mark.parametrize(("field", "arguments"), WRONG, ids=ascii)
def test_an_argument_that_is_not_allowed_is_named_and_nothing_fails(queue, field, arguments):
    queue.enqueue(job_id="a", queue="mail", lane="acme")
    with pytest.raises(InvalidJob) as caught:
        queue.fail_lane(**{"queue": "mail", "lane": "acme", "reason": "why", **arguments})
    assert caught.value.field == field
    assert field in str(caught.value)
    assert queue.read("a").state == "queued"
