"""Enqueue: ingest, with the fields as arguments."""

from datetime import timedelta, timezone

import pytest
from steps import claim_one

from bandog import Backoff, InvalidJob, Job, JobConflict


def test_enqueue_stores_what_ingest_stores(store, queue):
    fields = {
        "payload": {"to": "ada@example.org"},
        "queue": "mail",
        "lane": "acme",
        "job_id": "welcome-42",
        "priority": 5,
        "max_attempts": 3,
        "max_recoveries": 2,
        "available_at": store.now() + timedelta(hours=1),
        "backoff": Backoff(base=7, cap=70),
        "timeout": 30.5,
    }
    assert queue.enqueue(**fields).kind == "admitted"
    assert queue.ingest(Job(**fields)).kind == "duplicate"
    assert queue.claim() == []
    store.advance(3601)
    claim = claim_one(queue, "welcome-42")
    assert (claim.payload, claim.queue, claim.lane, claim.priority) == (fields["payload"], "mail", "acme", 5)
    assert (claim.max_attempts, claim.max_recoveries, claim.timeout) == (3, 2, 30.5)
    due = queue.fail(claim, "not yet").available_at
    assert store.is_about(due, store.now() + timedelta(seconds=7))


def test_enqueue_has_the_defaults_of_a_job(queue):
    job_id = queue.enqueue().job_id
    assert queue.ingest(Job(job_id=job_id)).kind == "duplicate"


def test_the_payload_may_be_given_by_position(queue):
    queue.enqueue([1, 2])
    assert claim_one(queue).payload == [1, 2]


def test_a_replay_and_a_conflict_are_those_of_ingest(queue):
    queue.enqueue(1, job_id="a")
    assert queue.enqueue(1, job_id="a").kind == "duplicate"
    with pytest.raises(JobConflict):
        queue.enqueue(2, job_id="a")


@pytest.mark.parametrize("delay", [3600, 3600.0, timedelta(hours=1)], ids=repr)
def test_a_delay_counts_from_the_moment_of_the_write(store, queue, delay):
    store.advance(100)
    record = queue.enqueue(job_id="later", delay=delay).job
    assert store.is_about(record.available_at, store.now() + timedelta(hours=1))
    store.advance(3000)
    assert queue.claim() == []
    store.advance(601)
    claim_one(queue, "later")


def test_a_time_in_another_zone_is_the_same_moment(store, queue):
    moment = (store.now() + timedelta(hours=2)).astimezone(timezone(timedelta(hours=-7)))
    record = queue.enqueue(available_at=moment).job
    assert record.available_at == moment
    assert record.available_at.utcoffset() == timedelta(0)


def test_a_time_in_the_past_means_at_once(store, queue):
    queue.enqueue(job_id="now")
    queue.enqueue(job_id="late", available_at=store.now() - timedelta(days=1))
    assert [claim.job_id for claim in queue.claim(limit=2)] == ["late", "now"]


def test_times_keep_their_microseconds(store, queue):
    moment = store.now().replace(microsecond=0) + timedelta(days=365 * 200, microseconds=999_999)
    assert queue.enqueue(job_id="far", available_at=moment).job.available_at == moment
    assert store.reopen().read("far").available_at == moment


def test_a_delay_together_with_a_time_is_refused(store, queue):
    with pytest.raises(InvalidJob) as caught:
        queue.enqueue(delay=1, available_at=store.now())
    assert caught.value.field in {"delay", "available_at"}
    assert not queue.has_pending_work()
