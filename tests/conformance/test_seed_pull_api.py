"""Seed 2's example, and every line of its list "What the tests prove", on our names.

README has the table of names. Four worker processes that race for one job are in ``tests/crash/test_race.py``.
"""

from datetime import timedelta

import pytest
from steps import claim_one, everything

from bandog import Backoff, Completed, Failed, InvalidJob, JobConflict, PayloadError, RequeueRefused, StaleClaim


def uppercase(queue):
    """The example worker: one job under one key, run if it is due."""
    queue.enqueue({"text": "hello"}, job_id="uppercase-1", max_attempts=5)
    claims = queue.claim("worker-1", lease=30)
    for claim in claims:
        queue.acknowledge(claim, claim.payload["text"].upper())
    return [queue.get(claim.job_id).outcome.result for claim in claims]


def test_the_example_s_second_run_reports_that_no_job_is_due(store):
    assert uppercase(store.connect()) == ["HELLO"]
    assert uppercase(store.reopen()) == []


def test_the_api_of_the_seed(store):
    with store.connect() as q:
        q.enqueue({"invoiceId": 42}, job_id="invoice-42", max_attempts=5)
        (job,) = q.claim("worker-1", lease=30)
        assert (job.job_id, job.payload, job.attempt) == ("invoice-42", {"invoiceId": 42}, 1)
        q.acknowledge((job.job_id, job.lease_token))
        assert q.get("invoice-42").outcome == Completed()
        assert everything(q.get("invoice-42")) == everything(q.read("invoice-42"))


def test_enqueue_is_idempotent_and_a_replay_returns_the_original_state_and_schedule(store, queue):
    later = store.now() + timedelta(hours=1)
    first = queue.enqueue({"b": 1, "a": [2]}, job_id="key", max_attempts=5, available_at=later)
    # Object keys are normalized, and the schedule of a replay does not count.
    again = queue.enqueue({"a": [2], "b": 1}, job_id="key", max_attempts=5)
    assert (first.kind, again.kind) == ("admitted", "duplicate")
    assert everything(again.job) == everything(first.job)
    assert again.job.available_at == later


def test_a_replay_after_completion_returns_the_completed_job(queue):
    queue.enqueue(1, job_id="key")
    queue.acknowledge(claim_one(queue, "key"), "done")
    assert queue.enqueue(1, job_id="key").job.outcome == Completed("done")
    assert queue.claim() == []


@pytest.mark.parametrize("changed", [{"payload": 2}, {"max_attempts": 6}], ids=repr)
def test_a_changed_payload_or_retry_limit_is_refused(queue, changed):
    fields = {"payload": 1, "job_id": "key", "max_attempts": 5}
    queue.enqueue(**fields)
    before = everything(queue.get("key"))
    with pytest.raises(JobConflict) as caught:
        queue.enqueue(**{**fields, **changed})
    assert caught.value.difference == next(iter(changed))
    assert everything(queue.get("key")) == before


def test_availability_is_delayed(store, queue):
    queue.enqueue(job_id="key", available_at=store.now() + timedelta(seconds=30))
    assert queue.claim() == []
    store.advance(31)
    assert claim_one(queue, "key").attempt == 1


def test_a_lease_excludes_everybody_else(store, queue):
    queue.enqueue(job_id="key")
    claim_one(queue, "key", worker="worker-1", lease=30)
    assert queue.claim("worker-2") == store.connect().claim("worker-1") == []


def test_a_job_that_is_acknowledged_is_completed_and_not_claimed_again(store, queue):
    queue.enqueue(job_id="key")
    assert queue.acknowledge(claim_one(queue, "key", lease=30)).kind == "completed"
    store.advance(100)
    assert queue.claim() == []


def test_failures_wait_one_second_doubled_up_to_sixty_and_then_the_job_is_dead(store, queue):
    queue.enqueue(job_id="key", max_attempts=9)
    waits = []
    for _ in range(8):
        settlement = queue.fail(claim_one(queue, "key"), "no luck")
        assert settlement.kind == "retried"
        waits.append(round((settlement.available_at - store.now()).total_seconds()))
        assert queue.claim() == []
        store.advance(waits[-1] + 0.1)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert queue.fail(claim_one(queue, "key"), "the last time").kind == "failed"
    store.advance(1000)
    assert queue.claim() == []
    (dead,) = queue.dead_letters()
    assert (dead.job_id, dead.outcome, dead.attempts) == ("key", Failed("the last time"), 9)


@pytest.mark.parametrize(
    "options", [{"base": 2, "cap": 5}, {"backoff": Backoff(base=2, cap=5)}, {"base": timedelta(seconds=2), "cap": 5.0}]
)
def test_base_and_cap_may_be_given_with_the_failure(store, queue, options):
    queue.enqueue(job_id="key", max_attempts=9)
    waits = []
    for _ in range(4):
        settlement = queue.fail(claim_one(queue, "key"), "no luck", **options)
        waits.append(round((settlement.available_at - store.now()).total_seconds()))
        store.advance(waits[-1] + 0.1)
    assert waits == [2, 4, 5, 5]


def test_base_or_cap_alone_leaves_the_other_at_its_default(store, queue):
    queue.enqueue(job_id="key", max_attempts=9)
    for options, wait in (({"base": 10}, 10), ({"cap": 1.5}, 1.5)):
        settlement = queue.fail(claim_one(queue, "key"), "no luck", **options)
        assert (settlement.available_at - store.now()).total_seconds() == pytest.approx(wait, abs=0.5)
        store.advance(20)


def test_base_beside_a_backoff_is_refused(queue):
    queue.enqueue(job_id="key", max_attempts=9)
    claim = claim_one(queue, "key")
    for options in ({"base": 1}, {"cap": 1}):
        with pytest.raises(InvalidJob) as caught:
            queue.fail(claim, "why", backoff=Backoff(), **options)
        assert caught.value.field == "backoff"
    assert queue.acknowledge(claim).kind == "completed"


def test_a_wait_is_persisted(store):
    queue = store.connect()
    queue.enqueue(job_id="key", max_attempts=2)
    queue.fail(claim_one(queue, "key"), "no luck", base=50, cap=50)
    queue = store.reopen()
    store.advance(49)
    assert queue.claim() == []
    store.advance(2)
    assert claim_one(queue, "key").last_error == "no luck"


def test_a_dead_letter_is_requeued_by_hand_with_its_attempts_reset(queue):
    queue.enqueue(job_id="key", max_attempts=1)
    old = claim_one(queue, "key")
    queue.fail(old, "why")
    assert [record.error for record in queue.dead_letters()] == ["why"]
    queue.requeue("key")
    assert len(queue.dead_letters()) == 0
    with pytest.raises(StaleClaim):
        queue.acknowledge((old.job_id, old.lease_token))
    claim = claim_one(queue, "key")
    assert claim.charged == 1
    queue.acknowledge(claim)
    with pytest.raises(RequeueRefused):
        queue.requeue("key")


def test_the_token_fences_a_stale_worker_from_the_replacement(store, queue):
    queue.enqueue(job_id="key", max_attempts=5)
    stale = claim_one(queue, "key", worker="worker-1", lease=30)
    store.advance(31)
    holder = claim_one(queue, "key", worker="worker-2", lease=30)
    for call in (queue.acknowledge, queue.renew, lambda claim: queue.fail(claim, "why")):
        for name in (stale, (stale.job_id, stale.lease_token)):
            with pytest.raises(StaleClaim):
                call(name)
    assert queue.acknowledge((holder.job_id, holder.lease_token)).kind == "completed"


def test_a_token_that_was_never_given_out_is_stale(queue):
    queue.enqueue(job_id="key")
    claim = claim_one(queue, "key")
    with pytest.raises(StaleClaim):
        queue.acknowledge(("key", claim.lease_token[::-1]))
    with pytest.raises(InvalidJob):
        queue.acknowledge(("key", None))


def test_a_lease_that_has_expired_is_stale_before_anybody_recovers_it(store, queue):
    queue.enqueue(job_id="key", max_attempts=5)
    claim = claim_one(queue, "key", lease=30)
    store.advance(31)
    with pytest.raises(StaleClaim):
        queue.acknowledge(claim)
    assert queue.get("key").state == "running"


def test_an_expired_lease_is_recovered_by_the_next_claim_at_once_and_uses_an_attempt(store, queue):
    queue.enqueue(job_id="key", max_attempts=2)
    claim_one(queue, "key", lease=30)
    store.advance(31)
    again = claim_one(queue, "key", lease=30)
    assert (again.attempt, again.charged) == (2, 2)


def test_an_abandoned_job_whose_attempts_are_exhausted_is_a_dead_letter(store, queue):
    queue.enqueue(job_id="key", max_attempts=2)
    for _ in range(2):
        claim_one(queue, "key", lease=30)
        store.advance(31)
    assert queue.claim() == []
    (dead,) = queue.dead_letters()
    assert (dead.job_id, dead.outcome.kind, dead.attempts) == ("key", "interrupted", 2)
    queue.requeue("key")
    assert claim_one(queue, "key").charged == 1


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("job_id", {"job_id": ""}),
        ("job_id", {"job_id": 5}),
        ("max_attempts", {"max_attempts": 0}),
        ("max_attempts", {"max_attempts": 1.5}),
        ("available_at", {"available_at": "tomorrow"}),
        ("payload", {"payload": float("nan")}),
        ("payload", {"payload": "x" * (1 << 20)}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_inputs_are_refused(queue, field, fields):
    with pytest.raises(InvalidJob) as caught:
        queue.enqueue(**fields)
    assert caught.value.field == field
    assert isinstance(caught.value, PayloadError) == (field == "payload")
    assert not queue.has_pending_work()


@pytest.mark.parametrize(("field", "arguments"), [("lease", {"lease": 0}), ("worker", {"worker": ""})], ids=repr)
def test_invalid_arguments_of_a_claim_are_refused(queue, field, arguments):
    with pytest.raises(InvalidJob) as caught:
        queue.claim(**arguments)
    assert caught.value.field == field


def test_a_queue_that_was_closed_and_opened_again_recovers(store):
    queue = store.connect()
    queue.enqueue({"n": 1}, job_id="key", max_attempts=5)
    stale = claim_one(queue, "key", lease=30)
    queue.close()
    queue.close()
    store.advance(31)
    queue = store.reopen()
    again = claim_one(queue, "key", lease=30)
    assert (again.attempt, again.payload) == (2, {"n": 1})
    with pytest.raises(StaleClaim):
        queue.acknowledge((stale.job_id, stale.lease_token))
    assert queue.acknowledge(again).kind == "completed"
