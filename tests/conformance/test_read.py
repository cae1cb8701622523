"""Read: everything that is known of a job."""

from datetime import timedelta

import pytest
from steps import LEASE, claim_one, everything

from bandog import InvalidJob, Job, JobNotFound


def test_an_unknown_job_is_an_error_with_its_id(queue):
    with pytest.raises(JobNotFound) as caught:
        queue.read("never")
    assert caught.value.job_id == "never"
    assert "'never'" in str(caught.value)
    assert isinstance(caught.value, LookupError)


@pytest.mark.parametrize("job_id", [None, 5, b"a", ["a"], "\ud800"], ids=ascii)
def test_what_is_no_id_is_refused(queue, job_id):
    with pytest.raises(InvalidJob) as caught:
        queue.read(job_id)
    assert caught.value.field == "job_id"


@pytest.mark.parametrize(
    "job_id", ["", "x" * 10_000, "nul\0", "%", "' OR 1=1 --"], ids=lambda job_id: ascii(job_id)[:12]
)
def test_an_id_that_no_job_can_have_is_not_found(queue, job_id):
    queue.enqueue(job_id="a")
    with pytest.raises(JobNotFound):
        queue.read(job_id)


def test_reading_changes_nothing(store, queue):
    queue.enqueue(job_id="a")
    claim = claim_one(queue, "a")
    store.advance(LEASE + 1)
    before = everything(queue.read("a"))
    for _ in range(3):
        assert everything(queue.read("a")) == before
    # Not even a claim that was lost.
    assert (before["state"], before["attempts"]) == ("running", 1)
    assert everything(store.connect().read("a")) == before
    assert claim.attempt == 1


def test_a_record_is_of_the_moment_when_it_was_read(queue):
    queue.enqueue(job_id="a")
    queued = queue.read("a")
    queue.acknowledge(claim_one(queue, "a"))
    assert queued.state == "queued"
    assert queue.read("a").state == "settled"


def test_a_record_cannot_be_changed(queue):
    record = queue.enqueue({"a": [1]}, job_id="a").job
    with pytest.raises(AttributeError):
        record.state = "settled"
    record.payload["a"].append(2)
    assert record.payload == {"a": [1]}


def test_times_are_aware_and_in_order(store, queue):
    queue.enqueue(job_id="a", delay=10)
    queued = queue.read("a")
    store.advance(11)
    claim = claim_one(queue, "a")
    running = queue.read("a")
    store.advance(5)
    queue.acknowledge(claim)
    settled = queue.read("a")
    times = [queued.admitted_at, running.claimed_at, settled.settled_at]
    for time in (*times, queued.available_at, running.lease_until):
        assert time.utcoffset() == timedelta(0)
    assert times == sorted(times)
    assert queued.admitted_at == running.admitted_at == settled.admitted_at


def test_every_counter_is_shown(store, queue):
    queue.ingest(Job(job_id="a", max_attempts=9))
    queue.release(claim_one(queue, "a"))
    claim_one(queue, "a", lease=LEASE)
    store.advance(LEASE + 1)
    queue.fail(claim_one(queue, "a"), "why", retry_in=0)
    store.advance(1)
    claim_one(queue, "a")
    record = queue.read("a")
    assert (record.attempts, record.given_back, record.charged, record.recoveries) == (4, 1, 3, 1)
    assert (record.state, record.error) == ("running", "why")


def test_a_repr_has_neither_payload_nor_token(queue):
    queue.enqueue("hunter2", job_id="a")
    claim = claim_one(queue, "a")
    for shown in (repr(queue.read("a")), repr(claim), repr(queue.enqueue("hunter2", job_id="a"))):
        assert "hunter2" not in shown
        assert claim.lease_token not in shown
        assert "a" in shown
