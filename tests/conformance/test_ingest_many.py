"""Ingest many jobs: one transaction, one answer per job."""

import math

import pytest
from steps import claimed_ids, everything

from bandog import InvalidJob, Job, JobNotFound, PayloadError


def numbered(count, **fields):
    return [Job(job_id=f"job-{number:04}", payload=number, **fields) for number in range(count)]


def kinds(admissions):
    return [admission.kind for admission in admissions]


def test_no_jobs_are_no_answers(queue):
    assert queue.ingest_many([]) == []
    assert not queue.has_pending_work()


def test_every_job_is_answered_in_order(queue):
    jobs = numbered(500)
    admissions = queue.ingest_many(jobs)
    assert kinds(admissions) == ["admitted"] * 500
    assert [admission.job_id for admission in admissions] == [job.job_id for job in jobs]
    assert [admission.job.payload for admission in admissions] == list(range(500))


def test_any_iterable_will_do(queue):
    assert kinds(queue.ingest_many(job for job in numbered(3))) == ["admitted"] * 3
    assert kinds(queue.ingest_many(tuple(numbered(4)))) == ["duplicate"] * 3 + ["admitted"]


def test_an_iterable_that_raises_writes_nothing(queue):
    def jobs():
        yield Job(job_id="first")
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError, match="the source is gone"):
        queue.ingest_many(jobs())
    assert not queue.has_pending_work()


def test_all_of_them_outlive_the_queue(store):
    store.connect().ingest_many(numbered(1000))
    queue = store.reopen()
    assert claimed_ids(queue, limit=100) == [job.job_id for job in numbered(1000)]


def test_a_conflict_spoils_no_other_job(queue):
    queue.ingest_many([Job(job_id="same", payload=1), Job(job_id="other", payload=1)])
    before = everything(queue.read("other"))
    admissions = queue.ingest_many(
        [
            Job(job_id="new-1"),
            Job(job_id="same", payload=1),
            Job(job_id="other", payload=2),
            Job(job_id="new-2"),
        ]
    )
    assert kinds(admissions) == ["admitted", "duplicate", "conflict", "admitted"]
    assert [admission.difference for admission in admissions] == [None, None, "payload", None]
    # Under a conflict the record is that of the job that holds the id.
    assert everything(admissions[2].job) == everything(queue.read("other")) == before
    assert claimed_ids(queue) == ["same", "other", "new-1", "new-2"]


def test_duplicates_and_conflicts_within_one_batch(queue):
    admissions = queue.ingest_many(
        [
            Job(job_id="twice", payload={"a": 1, "b": 2}),
            Job(job_id="twice", payload={"b": 2, "a": 1}),
            Job(job_id="twice", payload={"a": 1}),
            Job(job_id="twice", payload={"a": 1, "b": 2}, delay=60),
        ]
    )
    assert kinds(admissions) == ["admitted", "duplicate", "conflict", "duplicate"]
    (claim,) = queue.claim(limit=9)
    assert claim.payload == {"a": 1, "b": 2}


def test_a_batch_shows_each_state(store, queue):
    jobs = [Job(job_id=name, queue=name) for name in ("queued", "running", "settled")]
    queue.ingest_many(jobs)
    queue.claim(queues="running")
    (claim,) = queue.claim(queues="settled")
    queue.acknowledge(claim, "done")
    for opened in (queue, store.connect()):
        admissions = opened.ingest_many(reversed(jobs))
        assert kinds(admissions) == ["duplicate"] * 3
        assert [admission.job.state for admission in admissions] == ["settled", "running", "queued"]


@pytest.mark.parametrize("place", [0, 25, 49])
@pytest.mark.parametrize(
    ("field", "invalid"),
    [
        ("priority", Job(job_id="invalid", priority=2**31)),
        ("max_attempts", Job(job_id="invalid", max_attempts=0)),
        ("payload", Job(job_id="invalid", payload=math.nan)),
        ("queue", Job(job_id="invalid", queue="")),
    ],
    ids=["priority", "max_attempts", "payload", "queue"],
)
def test_one_invalid_job_keeps_the_whole_batch_out(queue, place, field, invalid):
    jobs = numbered(50)
    jobs[place] = invalid
    with pytest.raises(InvalidJob) as caught:
        queue.ingest_many(jobs)
    assert (caught.value.field, caught.value.job_id) == (field, "invalid")
    assert isinstance(caught.value, PayloadError) == (field == "payload")
    assert not queue.has_pending_work()
    with pytest.raises(JobNotFound):
        queue.read("job-0001")


@pytest.mark.parametrize("jobs", [None, 5, [None], [Job(), "job"]], ids=repr)
def test_what_is_no_iterable_of_jobs_is_refused(queue, jobs):
    with pytest.raises((InvalidJob, TypeError)):
        queue.ingest_many(jobs)
    assert not queue.has_pending_work()


def test_the_order_of_admission_is_that_of_the_batch(queue):
    queue.ingest_many(reversed(numbered(50)))
    assert claimed_ids(queue, limit=7) == [job.job_id for job in reversed(numbered(50))]
