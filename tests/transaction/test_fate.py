"""The job and the caller's own rows have one fate, whatever the library, the mode and the end (C39)."""

import pytest

from bandog import Job

TASK = {"to": "ada@example.org", "n": [1, 2.5, None, "ü"]}


def enqueue(caller, job_id):
    assert caller.queue.enqueue(TASK, job_id=job_id, connection=caller.connection).kind == "admitted"


def settle(caller, job_id):
    """A claim that was made before the transaction: by now its connection has the lock."""
    assert caller.queue.acknowledge(caller.claims[job_id], {"done": job_id}, connection=caller.connection).kind == (
        "completed"
    )


def both_orders(caller, word):
    """The caller's row first, then the job's; then the other way round."""
    caller.write(f"{word}-1")
    enqueue(caller, f"{word}-1")
    enqueue(caller, f"{word}-2")
    caller.write(f"{word}-2")


def test_a_commit_keeps_both(caller):
    both_orders(caller, "kept")
    assert caller.jobs() == caller.words() == []
    assert not caller.queue.has_pending_work(), "no job is seen before the commit"
    caller.commit()
    assert caller.jobs() == caller.words() == ["kept-1", "kept-2"]
    record = caller.queue.read("kept-1")
    assert (record.state, record.payload) == ("queued", TASK)
    (claim,) = caller.queue.claim()
    assert (claim.job_id, claim.attempt) == ("kept-1", 1)


def test_a_rollback_takes_both(caller):
    both_orders(caller, "gone")
    caller.roll_back()
    assert caller.jobs() == caller.words() == []
    # Nothing is left of it: the queue writes, and gives the same number out again.
    assert caller.queue.ingest(Job(job_id="gone-1", payload=1)).kind == "admitted"


def test_a_connection_that_is_closed_takes_both(caller):
    both_orders(caller, "gone")
    caller.close()
    assert caller.jobs() == caller.words() == []
    assert caller.queue.enqueue(job_id="next").kind == "admitted"


def test_a_rollback_to_a_savepoint_takes_what_came_after_it(caller):
    caller.write("outer-1")
    enqueue(caller, "outer-1")
    caller.savepoint()
    both_orders(caller, "inner")
    caller.roll_back_to_savepoint()
    caller.write("outer-2")
    enqueue(caller, "outer-2")
    caller.commit()
    assert caller.jobs() == caller.words() == ["outer-1", "outer-2"]


def test_a_savepoint_that_is_released_ends_with_its_transaction(caller):
    caller.savepoint()
    both_orders(caller, "inner")
    caller.release_savepoint()
    caller.commit()
    assert caller.jobs() == caller.words() == ["inner-1", "inner-2"]


def test_a_savepoint_that_is_released_is_rolled_back_with_its_transaction(caller):
    caller.write("outer")
    caller.savepoint()
    both_orders(caller, "inner")
    caller.release_savepoint()
    caller.roll_back()
    assert caller.jobs() == caller.words() == []


def test_a_statement_of_the_callers_that_fails_costs_the_job_nothing_by_itself(caller):
    caller.write("once")
    enqueue(caller, "once")
    caller.savepoint()
    with pytest.raises(Exception, match=r"(?i)unique"):
        caller.write("once")
    caller.roll_back_to_savepoint()
    caller.commit()
    assert caller.jobs() == caller.words() == ["once"]


def test_a_transaction_that_is_given_up_after_an_error_takes_both(caller):
    caller.write("once")
    enqueue(caller, "once")
    with pytest.raises(Exception, match=r"(?i)unique"):
        caller.write("once")
    caller.roll_back()
    assert caller.jobs() == caller.words() == []


@pytest.fixture
def claimed(caller):
    """Three claimed jobs, under the caller's ``claims``."""
    for job_id in ("a", "b", "c"):
        caller.queue.enqueue(job_id=job_id, max_attempts=3)
    caller.claims = {claim.job_id: claim for claim in caller.queue.claim(limit=3)}
    return caller


def outcomes(caller):
    return dict(
        caller.select(
            "SELECT job_id, kind FROM bandog_outcome AS outcome JOIN bandog_job USING (number) ORDER BY job_id"
        )
    )


def test_a_settlement_is_committed_with_the_callers_rows(claimed):
    claimed.write("a")
    settle(claimed, "a")
    assert outcomes(claimed) == {}
    claimed.commit()
    assert claimed.words() == ["a"]
    assert outcomes(claimed) == {"a": "completed"}
    assert claimed.queue.read("a").outcome.result == {"done": "a"}


def test_a_settlement_is_rolled_back_with_the_callers_rows(claimed):
    claimed.write("a")
    settle(claimed, "a")
    claimed.roll_back()
    assert (claimed.words(), outcomes(claimed)) == ([], {})
    # The claim goes on as if nothing had been.
    claimed.queue.renew(claimed.claims["a"])
    assert claimed.queue.fail(claimed.claims["a"], "after all", retry=False).kind == "failed"


def test_a_settlement_is_rolled_back_with_its_savepoint(claimed):
    settle(claimed, "a")
    claimed.savepoint()
    claimed.write("b")
    settle(claimed, "b")
    claimed.roll_back_to_savepoint()
    claimed.queue.fail(claimed.claims["b"], "why", retry_in=0, connection=claimed.connection)
    claimed.queue.release(claimed.claims["c"], connection=claimed.connection)
    claimed.commit()
    assert outcomes(claimed) == {"a": "completed"}
    assert claimed.words() == []
    assert [claimed.queue.read(job_id).given_back for job_id in ("b", "c")] == [0, 1]


def test_a_settlement_of_a_connection_that_is_closed_never_was(claimed):
    claimed.write("a")
    settle(claimed, "a")
    claimed.close()
    assert (claimed.words(), outcomes(claimed)) == ([], {})
    claimed.queue.renew(claimed.claims["a"])


def test_a_request_and_its_job_are_one(caller):
    """Jobs that one job leads to, and its own end: all of it or nothing."""
    caller.queue.enqueue(job_id="parent")
    (claim,) = caller.queue.claim()
    children = [Job(job_id=f"child-{number}") for number in range(3)]
    caller.queue.ingest_many(children, connection=caller.connection)
    caller.queue.acknowledge((claim.job_id, claim.lease_token), connection=caller.connection)
    caller.roll_back()
    assert caller.jobs() == ["parent"]
    assert caller.queue.read("parent").state == "running"
