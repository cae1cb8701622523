"""What is answered and raised through ``connection=``, which is what the queue itself answers and raises."""

import pytest

from bandog import (
    Backoff,
    Cancelled,
    Completed,
    Failed,
    InvalidJob,
    Job,
    JobConflict,
    JobNotFound,
    LaneFull,
    OutcomeUnknown,
    PayloadError,
    Release,
    Snooze,
    StaleClaim,
)


def fields(record):
    """What a record says."""
    names = [name for name in dir(record) if not name.startswith("_")]
    return {name: getattr(record, name) for name in names}


def test_an_admission_says_what_the_queues_own_says(caller):
    job = Job(
        payload={"b": 1, "a": [True, None, 1.0]}, job_id="a", queue="q", lane="l", priority=-3, max_attempts=4,
        max_recoveries=2, delay=60, backoff=Backoff(2, 9), timeout=5,
    )  # fmt: skip
    admission = caller.queue.ingest(job, connection=caller.connection)
    caller.commit()
    assert (admission.kind, admission.job_id, admission.limit, admission.difference) == ("admitted", "a", None, None)
    assert fields(admission.job) == fields(caller.queue.read("a"))
    assert repr(admission) == '<Admission admitted "a">'
    assert repr(admission.job) == repr(caller.queue.read("a"))


def test_an_id_is_made_where_none_is_given(caller):
    made = [caller.queue.enqueue(connection=caller.connection).job_id for _ in range(3)]
    caller.commit()
    assert caller.jobs() == sorted(made)
    assert len({len(job_id) for job_id in made}) == 1
    assert made[0][14] == caller.queue.enqueue().job_id[14] == "7"


def test_a_replay_and_a_conflict_are_told_and_change_nothing(caller):
    caller.queue.enqueue({"n": 1}, job_id="a", priority=1)
    caller.queue.enqueue({"n": 1}, job_id="b", connection=caller.connection)
    replays = [
        caller.queue.enqueue({"n": 1}, job_id="a", priority=1, delay=9, connection=caller.connection),
        # Of this very transaction.
        caller.queue.enqueue({"n": 1}, job_id="b", connection=caller.connection),
    ]
    assert [replay.kind for replay in replays] == ["duplicate", "duplicate"]
    assert [replay.job.job_id for replay in replays] == ["a", "b"]
    with pytest.raises(JobConflict, match="'a' is already stored with another priority, payload") as caught:
        caller.queue.enqueue({"n": 2}, job_id="a", connection=caller.connection)
    assert (caught.value.job_id, caught.value.difference) == ("a", "priority, payload")
    caller.commit()
    assert caller.jobs() == ["a", "b"]
    assert caller.queue.read("a").payload == {"n": 1}


@pytest.mark.parametrize("state", ["queued", "running", "completed", "outcome_unknown", "failed", "cancelled"])
def test_a_replay_shows_the_jobs_present_state(caller, state):
    caller.queue.enqueue({"n": 1}, job_id="a", max_attempts=5)
    if state != "queued":
        (claim,) = caller.queue.claim(worker="w-1")
        if state == "running":
            caller.queue.cancel("a", "no longer wanted")
        else:
            reports = {
                "completed": Completed([1]),
                "outcome_unknown": OutcomeUnknown({"asked": None}),
                "failed": Failed("why", retry=False),
                "cancelled": Cancelled("was told to"),
            }
            caller.queue.settle(claim, reports[state])
    shown = caller.queue.enqueue({"n": 1}, job_id="a", max_attempts=5, connection=caller.connection).job
    caller.commit()
    assert fields(shown) == fields(caller.queue.read("a")) or state == "running"
    if state == "running":  # the end of a lease is shown as wall time, by clocks that were read a moment apart
        ours, native = fields(shown), fields(caller.queue.read("a"))
        assert abs((ours.pop("lease_until") - native.pop("lease_until")).total_seconds()) < 0.5
        assert ours == native
        assert ours["cancel_reason"] == "no longer wanted"


def test_a_full_lane_refuses_what_is_new_and_nothing_else(caller):
    caller.queue.set_lane_limit("q", "narrow", 2)
    caller.queue.set_lane_limit("q", "default", 1)
    caller.queue.enqueue(job_id="a", queue="q", lane="narrow")
    kinds = [
        admission.kind
        for admission in caller.queue.ingest_many(
            [
                Job(job_id="b", queue="q", lane="narrow"),
                Job(job_id="c", queue="q", lane="narrow"),
                Job(job_id="a", queue="q", lane="narrow"),
                Job(job_id="a", queue="q", lane="narrow", payload=1),
                Job(job_id="d", queue="q"),
                Job(job_id="e", queue="q"),
                Job(job_id="f", queue="q", lane="wide"),
            ],
            connection=caller.connection,
        )
    ]
    assert kinds == ["admitted", "refused", "duplicate", "conflict", "admitted", "refused", "admitted"]
    with pytest.raises(LaneFull, match="holds 2 queued jobs") as caught:
        caller.queue.enqueue(job_id="g", queue="q", lane="narrow", connection=caller.connection)
    assert (caught.value.job_id, caught.value.lane, caught.value.limit) == ("g", "narrow", 2)
    caller.commit()
    assert caller.jobs() == ["a", "b", "d", "f"]


def test_a_job_that_cannot_be_stored_is_refused_before_anything_is_written(caller):
    with pytest.raises(PayloadError, match=r'job "a": payload at \$.n') as caught:
        caller.queue.ingest_many(
            [Job(job_id="b"), Job(job_id="a", payload={"n": float("nan")})], connection=caller.connection
        )
    assert (caught.value.field, caught.value.path, caught.value.job_id) == ("payload", "$.n", "a")
    with pytest.raises(InvalidJob) as caught:
        caller.queue.enqueue(priority=True, job_id="a", connection=caller.connection)
    assert (caught.value.field, caught.value.job_id) == ("priority", "a")
    caller.commit()
    assert caller.jobs() == []


@pytest.mark.parametrize("how", ["object", "pair"])
def test_every_report_ends_a_claim(caller, how):
    names = ("completed", "failed", "retried", "cancelled", "unknown", "snoozed", "released")
    for name in names:
        caller.queue.enqueue(job_id=name, max_attempts=3)
    claims = {claim.job_id: claim for claim in caller.queue.claim(limit=9)}
    if how == "pair":
        claims = {name: (name, claim.lease_token) for name, claim in claims.items()}
    queue, connection = caller.queue, caller.connection
    kinds = [
        queue.acknowledge(claims["completed"], [1], connection=connection).kind,
        queue.fail(claims["failed"], "why", retry=False, connection=connection).kind,
        queue.fail(claims["retried"], "why", base=30, connection=connection).kind,
        queue.cancelled(claims["cancelled"], "told", connection=connection).kind,
        queue.outcome_unknown(claims["unknown"], {"a": 1}, connection=connection).kind,
        queue.settle(claims["snoozed"], Snooze(60), connection=connection).kind,
        queue.release(claims["released"], connection=connection).kind,
    ]
    caller.commit()
    assert kinds == ["completed", "failed", "retried", "cancelled", "outcome_unknown", "snoozed", "released"]
    records = {name: queue.read(name) for name in names}
    assert [records[name].state for name in names] == [
        *("settled", "settled", "queued", "settled", "settled", "queued", "queued")
    ]
    assert records["completed"].outcome == Completed([1])
    assert records["failed"].outcome == Failed("why")
    assert records["cancelled"].outcome == Cancelled("told")
    assert records["unknown"].outcome == OutcomeUnknown({"a": 1})
    assert records["retried"].error == "why"
    wait = records["retried"].available_at - records["retried"].admitted_at
    assert 30 <= wait.total_seconds() < 60
    assert [records[name].given_back for name in ("retried", "snoozed", "released")] == [0, 1, 1]


def test_a_settlement_is_repeated_and_not_made_twice(caller):
    caller.queue.enqueue(job_id="a", max_attempts=9)
    (claim,) = caller.queue.claim()
    first = caller.queue.fail(claim, "why", retry_in=60, connection=caller.connection)
    again = caller.queue.acknowledge(claim, connection=caller.connection)
    caller.commit()
    assert first == again
    assert (again.kind, again.available_at) == ("retried", caller.queue.read("a").available_at)
    assert caller.queue.settle(claim, Completed()) == first, "natively too"


def test_a_lost_claim_raises_so_that_the_transaction_is_rolled_back(caller):
    caller.queue.enqueue(job_id="a")
    (lost,) = caller.queue.claim()
    caller.queue.release(lost)
    (held,) = caller.queue.claim()
    caller.queue.acknowledge(held)
    caller.write("paid")
    with pytest.raises(StaleClaim, match="claim on job 'a' no longer holds") as caught:
        caller.queue.acknowledge(lost, connection=caller.connection)
    assert caught.value.job_id == "a"
    with pytest.raises(StaleClaim):
        caller.queue.fail(("a", "0" * 32), "why", connection=caller.connection)
    with pytest.raises(JobNotFound):
        caller.queue.fail(("nowhere", "0" * 32), "why", connection=caller.connection)
    caller.roll_back()
    assert caller.words() == []


def test_one_lost_claim_among_many_raises_before_anything_is_changed(caller):
    for job_id in ("a", "b", "c"):
        caller.queue.enqueue(job_id=job_id)
    a, b, c = caller.queue.claim(limit=3)
    caller.queue.cancelled(b)
    stale = (b.job_id, "0" * 32)
    with pytest.raises(StaleClaim) as caught:
        caller.queue.settle_many(
            [(a, Completed()), (stale, Completed()), (c, Completed())], connection=caller.connection
        )
    assert caught.value.job_id == "b"
    with pytest.raises(JobNotFound):
        caller.queue.settle_many([(a, Completed()), (("x", "y"), Completed())], connection=caller.connection)
    caller.commit()  # against the advice
    assert [caller.queue.read(job_id).state for job_id in ("a", "b", "c")] == ["running", "settled", "running"]


def test_a_claim_may_come_twice_and_one_that_was_settled_before_is_not_lost(caller):
    for job_id in ("a", "b", "c"):
        caller.queue.enqueue(job_id=job_id)
    a, b, c = caller.queue.claim(limit=3)
    caller.queue.cancelled(b)
    reports = [(a, Completed()), (b, Completed()), (c, Release()), (a, Failed("too late"))]
    settled = caller.queue.settle_many(reports, connection=caller.connection)
    assert [settlement.kind for settlement in settled] == ["completed", "cancelled", "released", "completed"]
    caller.commit()
    assert [caller.queue.read(job_id).state for job_id in ("a", "b", "c")] == ["settled", "settled", "queued"]


def test_an_expired_lease_raises(caller):
    caller.queue.enqueue(job_id="a")
    (claim,) = caller.queue.claim(lease=0.5)
    caller.expire()
    with pytest.raises(StaleClaim):
        caller.queue.acknowledge(claim, connection=caller.connection)
    caller.roll_back()


def test_what_cannot_be_reported_is_refused_and_the_claim_holds_on(caller):
    caller.queue.enqueue(job_id="a")
    (claim,) = caller.queue.claim()
    for pair in ((claim, "done"), (claim, Completed), ("a", Completed()), ((claim,), Completed()), claim):
        with pytest.raises(InvalidJob):
            caller.queue.settle_many([pair], connection=caller.connection)
    with pytest.raises(InvalidJob):
        caller.queue.settle((1, "token"), Completed(), connection=caller.connection)
    caller.queue.acknowledge(claim, object(), connection=caller.connection)
    caller.commit()
    assert "result not storable" in caller.queue.read("a").outcome.reason


def test_nothing_to_do_is_done(caller):
    assert caller.queue.ingest_many([], connection=caller.connection) == []
    assert caller.queue.settle_many([], connection=caller.connection) == []
    caller.commit()
