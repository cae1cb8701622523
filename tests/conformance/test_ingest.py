"""Ingest one job: admitted, duplicate or conflict."""

import dataclasses
import threading
from datetime import timedelta

import pytest
from steps import LEASE, Background, claim_one, claimed_ids, everything

from bandog import Backoff, Job, JobConflict, JobNotFound

JOB = Job(
    job_id="report-1",
    queue="reports",
    lane="acme",
    priority=3,
    payload={"reportId": "monthly-1", "pages": [1, 2]},
    max_attempts=4,
    max_recoveries=2,
)


def changed(**fields):
    return dataclasses.replace(JOB, **fields)


def test_an_admitted_job_is_queued_with_all_its_fields(store, queue):
    admission = queue.ingest(JOB)
    assert (admission.kind, admission.job_id, admission.difference) == ("admitted", "report-1", None)
    record = queue.read("report-1")
    assert everything(admission.job) == everything(record)
    assert store.is_about(record.admitted_at, store.now())
    assert store.is_about(record.available_at, store.now())
    assert everything(record) == {
        "job_id": "report-1",
        "queue": "reports",
        "lane": "acme",
        "priority": 3,
        "payload_json": '{"pages":[1,2],"reportId":"monthly-1"}',
        "max_attempts": 4,
        "max_recoveries": 2,
        "admitted_at": record.admitted_at,
        "state": "queued",
        "available_at": record.available_at,
        "worker": None,
        "claimed_at": None,
        "lease_until": None,
        "cancel_requested_at": None,
        "cancel_reason": None,
        "settled_at": None,
        "outcome": None,
        "error": None,
        "attempts": 0,
        "given_back": 0,
        "recoveries": 0,
        "charged": 0,
    }
    assert record.payload == JOB.payload


def test_a_job_without_fields_has_the_documented_defaults(queue):
    record = queue.ingest(Job()).job
    assert (record.queue, record.lane, record.priority, record.payload) == ("default", "default", 0, None)
    assert (record.max_attempts, record.max_recoveries) == (None, None)
    assert 1 <= len(record.job_id) <= 255


def test_ids_that_are_made_are_all_different(queue):
    ids = {queue.ingest(Job()).job_id for _ in range(100)}
    assert len(ids) == 100


def test_an_admitted_job_outlives_the_queue(store):
    before = everything(store.connect().ingest(JOB).job)
    queue = store.reopen()
    assert everything(queue.read("report-1")) == before
    assert claim_one(queue, "report-1").payload == JOB.payload


def test_a_replay_while_queued_is_a_duplicate_with_the_present_state(queue):
    first = everything(queue.ingest(JOB).job)
    again = queue.ingest(JOB)
    assert again.kind == "duplicate"
    assert everything(again.job) == first
    assert [claim.job_id for claim in queue.claim(limit=9)] == ["report-1"]


def test_a_replay_while_running_is_a_duplicate_with_the_present_state(queue):
    queue.ingest(JOB)
    claim = claim_one(queue)
    again = queue.ingest(JOB)
    assert (again.kind, again.job.state, again.job.attempts) == ("duplicate", "running", 1)
    assert everything(again.job) == everything(queue.read("report-1"))
    assert queue.claim(limit=9) == []
    assert queue.acknowledge(claim).kind == "completed"


@pytest.mark.parametrize("settle", ["acknowledge", "fail", "cancelled", "outcome_unknown"])
def test_a_replay_after_the_end_is_a_duplicate_with_the_outcome(store, queue, settle):
    queue.ingest(JOB)
    claim = claim_one(queue)
    if settle == "fail":
        queue.fail(claim, "broken", retry=False)
    else:
        getattr(queue, settle)(claim)
    record = everything(queue.read("report-1"))
    assert record["state"] == "settled"
    for reopened in (False, True):
        opened = store.reopen() if reopened else queue
        again = opened.ingest(JOB)
        assert (again.kind, everything(again.job)) == ("duplicate", record)
        assert opened.claim(limit=9) == []
        assert not opened.has_pending_work()


def test_a_replay_after_interruption_is_a_duplicate(store, queue):
    job = Job(job_id="lost", payload=1, max_recoveries=0)
    queue.ingest(job)
    claim_one(queue)
    store.advance(LEASE + 1)
    assert queue.recover() == ((), ("lost",))
    again = queue.ingest(job)
    assert (again.kind, again.job.outcome.kind) == ("duplicate", "interrupted")


@pytest.mark.parametrize(
    "schedule",
    [
        {"delay": 3600},
        {"backoff": Backoff(base=5, cap=50)},
        {"timeout": 30},
        {"delay": timedelta(hours=1), "backoff": Backoff(jitter=1.0), "timeout": timedelta(seconds=9)},
    ],
    ids="+".join,
)
def test_schedule_backoff_and_timeout_do_not_count_as_content(queue, schedule):
    first = everything(queue.ingest(JOB).job)
    again = queue.ingest(changed(**schedule))
    assert again.kind == "duplicate"
    assert everything(again.job) == first
    # The stored schedule and time-out stand.
    assert claim_one(queue, "report-1").timeout is None


def test_an_absolute_time_does_not_count_as_content(store, queue):
    first = everything(queue.ingest(JOB).job)
    again = queue.ingest(changed(available_at=store.now() + timedelta(days=1)))
    assert (again.kind, everything(again.job)) == ("duplicate", first)


CONFLICTS = {
    "queue": "other",
    "lane": "other",
    "priority": 4,
    "payload": {"reportId": "monthly-2", "pages": [1, 2]},
    "max_attempts": 5,
    "max_recoveries": 3,
}


@pytest.mark.parametrize("state", ["queued", "running", "settled"])
@pytest.mark.parametrize("field", CONFLICTS)
def test_other_content_under_the_same_id_is_a_conflict_and_changes_nothing(queue, field, state):
    queue.ingest(JOB)
    if state != "queued":
        claim = claim_one(queue)
        if state == "settled":
            queue.acknowledge(claim, {"pages": 2})
    before = everything(queue.read("report-1"))
    with pytest.raises(JobConflict) as caught:
        queue.ingest(changed(**{field: CONFLICTS[field]}))
    assert (caught.value.job_id, caught.value.difference) == ("report-1", field)
    assert "'report-1'" in str(caught.value)
    assert field in str(caught.value)
    assert everything(queue.read("report-1")) == before
    assert queue.ingest(JOB).kind == "duplicate"


@pytest.mark.parametrize("field", ["max_attempts", "max_recoveries"])
def test_an_absent_budget_differs_from_any_number(queue, field):
    queue.ingest(JOB)
    with pytest.raises(JobConflict) as caught:
        queue.ingest(changed(**{field: None}))
    assert caught.value.difference == field


def test_an_absent_recovery_budget_differs_from_the_one_that_it_means(queue):
    queue.ingest(Job(job_id="plain"))
    with pytest.raises(JobConflict):
        queue.ingest(Job(job_id="plain", max_recoveries=1))
    assert queue.ingest(Job(job_id="plain")).kind == "duplicate"


def test_a_conflict_names_every_field_that_differs(queue):
    queue.ingest(JOB)
    with pytest.raises(JobConflict) as caught:
        queue.ingest(changed(queue="other", priority=-1, max_attempts=None))
    assert set(caught.value.difference.split(", ")) == {"queue", "priority", "max_attempts"}


def test_a_conflict_does_not_repeat_the_payload(queue):
    queue.ingest(Job(job_id="secret", payload="hunter2"))
    with pytest.raises(JobConflict) as caught:
        queue.ingest(Job(job_id="secret", payload="hunter3"))
    assert "hunter" not in str(caught.value)


def test_a_conflicting_id_creates_no_job_under_another_queue(queue):
    queue.ingest(JOB)
    with pytest.raises(JobConflict):
        queue.ingest(changed(queue="other"))
    assert queue.claim(queues="other") == []


def test_the_payload_is_kept_as_it_was_when_it_was_ingested(queue):
    payload = {"items": [1]}
    queue.ingest(Job(job_id="mutable", payload=payload))
    payload["items"].append(2)
    assert claim_one(queue, "mutable").payload == {"items": [1]}


def test_several_queues_see_the_same_jobs(store):
    first, second = store.connect(), store.connect()
    first.ingest(JOB)
    assert second.ingest(JOB).kind == "duplicate"
    with pytest.raises(JobConflict):
        second.ingest(changed(priority=9))
    assert claim_one(second, "report-1").attempt == 1
    assert first.claim() == []


def test_an_unknown_id_is_not_stored_by_reading_it(queue):
    with pytest.raises(JobNotFound):
        queue.read("report-1")
    assert queue.ingest(JOB).kind == "admitted"


def test_of_many_who_ingest_one_id_at_once_one_is_admitted(store):
    queues = [store.connect() for _ in range(3)]
    start = threading.Barrier(12)

    def ingest(thread):
        start.wait(30)
        return queues[thread % 3].ingest_many([Job(job_id="same", payload=thread % 2), Job(job_id=f"own-{thread}")])

    threads = [Background(lambda thread=thread: ingest(thread)) for thread in range(12)]
    answers = [thread.join() for thread in threads]
    kinds = [same.kind for same, _ in answers]
    assert kinds.count("admitted") == 1
    winner = kinds.index("admitted") % 2
    assert [kind for thread, kind in enumerate(kinds) if thread % 2 != winner] == ["conflict"] * 6
    assert sorted(kind for thread, kind in enumerate(kinds) if thread % 2 == winner) == ["admitted"] + ["duplicate"] * 5
    # A conflict in one call spoils no other job, of this call or of another that is committed with it.
    assert {own.kind for _, own in answers} == {"admitted"}
    assert sorted(claimed_ids(queues[0])) == sorted(["same", *(f"own-{thread}" for thread in range(12))])
    assert queues[1].read("same").payload == winner
