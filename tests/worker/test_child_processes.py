"""Executors in child processes: killed, dying, not starting, and what passes to them and back."""

import logging
import os
import pickle
import signal
import threading
import time

import broken_executors
import executors
import pytest
import slow_executors
from steps import claim_one, pickled, wait_until

import bandog
from bandog import Cancelled, Completed, Failed, Interrupted, Job

pytestmark = pytest.mark.kinds("processes")

LEASE = 120.0
"""Far longer than any wait here: nothing is recovered by the end of a lease."""


def is_alive(pid):
    """Whether a process is there and no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 - no file in the sense of pathlib
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pid_of_child(bench):
    """The process that runs the jobs of a worker with one child."""
    name = f"who-{time.monotonic()}"
    bench.ingest("who", name)
    return bench.settled(name).outcome.result


# Dying


@pytest.mark.parametrize("code", [137, 0, 1])
def test_a_child_that_dies_is_noticed_at_once_and_its_job_recovered(bench, code):
    bench.ingest("dies", "a", code=code, times=1, budget={"max_attempts": 3})
    worker = bench.start(lease=LEASE)
    record = bench.settled("a")
    assert record.outcome == Completed("lived")
    assert (record.attempts, record.charged, record.recoveries) == (2, 2, 1)
    bench.await_counts(worker, recovered=1, completed=1)
    bench.await_nothing_held()


def test_without_a_budget_a_lost_job_is_recovered_once_and_then_interrupted(bench):
    bench.ingest("dies", "a", times=99)
    bench.ingest("noted", "next")
    worker = bench.start(lease=LEASE)
    record = bench.settled("a")
    assert isinstance(record.outcome, Interrupted)
    assert "exit code 137" in record.outcome.reason
    assert "bench" in record.outcome.reason  # the worker
    assert (record.attempts, record.recoveries) == (2, 1)
    assert bench.settled("next").outcome == Completed()
    bench.await_counts(worker, recovered=1, interrupted=1, completed=1)
    assert [record.job_id for record in bench.queue.dead_letters()] == ["a"]


def test_a_job_that_kills_its_process_starts_as_often_as_its_budget_says(bench):
    bench.ingest("dies", "a", times=99, budget={"max_attempts": 3})
    bench.start(lease=LEASE)
    assert bench.settled("a").outcome.kind == "interrupted"
    assert bench.noted("a") == ["started"] * 3


def test_a_child_killed_from_outside_is_replaced_and_its_job_recovered(bench, caplog):
    bench.start(lease=LEASE)
    pid = pid_of_child(bench)
    bench.ingest("holds", "a", budget={"max_recoveries": 1})
    bench.await_note("a", "started")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: bench.noted("a").count("started") == 2, "it is started again")
    record = bench.queue.read("a")
    assert (record.state, record.recoveries) == ("running", 1)
    assert "exit code -9" in record.error
    bench.let_go("a")
    assert bench.settled("a").outcome == Completed("held on")
    assert pid_of_child(bench) != pid
    (told,) = [record for record in caplog.records if "died" in record.message]
    assert (told.job_id, told.queue, told.attempt, told.levelno) == ("a", "default", 1, logging.WARNING)


def test_the_jobs_of_the_other_children_are_not_blamed(bench):
    for number in range(2):
        bench.ingest("holds", f"bystander-{number}", budget={"max_recoveries": 0})
    bench.start(at_once=3, lease=LEASE)
    for number in range(2):
        bench.await_note(f"bystander-{number}", "started")
    bench.ingest("dies", "a", times=99, budget={"max_attempts": 3})
    assert bench.settled("a").outcome.kind == "interrupted"
    for number in range(2):
        bench.let_go(f"bystander-{number}")
        record = bench.settled(f"bystander-{number}")
        assert record.outcome == Completed("held on")
        assert (record.attempts, record.recoveries) == (1, 0)


def test_a_child_that_dies_while_it_is_idle_costs_no_job_anything(bench):
    bench.start(lease=LEASE)
    pid = pid_of_child(bench)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid), "it is dead")
    bench.ingest("noted", "a", budget={"max_recoveries": 0})
    record = bench.settled("a")
    assert (record.outcome, record.attempts, record.recoveries) == (Completed(), 1, 0)


def test_a_lost_job_whose_cancellation_was_asked_for_is_not_run_again(bench):
    bench.ingest("holds", "a", ignores=True, budget={"max_attempts": 9})
    bench.start(lease=LEASE, kill_after=0.1)
    bench.await_note("a", "started")
    bench.queue.cancel("a", "not wanted")
    record = bench.settled("a")
    # It was killed, and nobody knows how far it came.
    assert isinstance(record.outcome, Interrupted)
    assert bench.noted("a").count("started") == 1


# Killing


def test_a_job_that_goes_on_after_its_timeout_is_killed(bench):
    bench.ingest("sleeps", "a", seconds=600.0, budget={"timeout": 0.1})
    bench.start(lease=LEASE, kill_after=0.1)
    outcome = bench.settled("a").outcome
    assert isinstance(outcome, Failed)
    assert "longer than its timeout" in outcome.reason
    assert "killed" in outcome.reason
    assert bench.noted("a") == ["started"]
    bench.ingest("noted", "next")
    assert bench.settled("next").outcome == Completed()


def test_a_job_that_was_killed_for_its_timeout_is_tried_again_within_its_budget(bench):
    budget = {"timeout": 0.1, "max_attempts": 2, "backoff": bandog.Backoff(0.01)}
    bench.ingest("sleeps", "a", seconds=600.0, budget=budget)
    worker = bench.start(lease=LEASE, kill_after=0.1)
    assert bench.settled("a").outcome.kind == "failed"
    assert bench.noted("a") == ["started"] * 2
    bench.await_counts(worker, retried=1, failed=1, recovered=0)


def test_a_job_that_stops_within_kill_after_is_not_killed(bench):
    worker = bench.start(lease=LEASE, kill_after=30.0)
    pid = pid_of_child(bench)
    bench.ingest("holds", "a")
    bench.await_note("a", "started")
    bench.queue.cancel("a", "not wanted")
    assert bench.settled("a").outcome == Cancelled("not wanted")
    assert pid_of_child(bench) == pid
    assert worker.stats().recovered == 0


def test_the_next_job_of_a_child_does_not_see_the_abort_of_the_one_before(bench):
    bench.start(lease=LEASE, kill_after=30.0)
    for number in range(5):
        bench.ingest("holds", f"a-{number}")
        bench.await_note(f"a-{number}", "started")
        bench.queue.cancel(f"a-{number}", "not wanted")
        bench.ingest("holds", f"b-{number}")
        bench.await_note(f"b-{number}", "started")
        bench.let_go(f"b-{number}")
        assert bench.settled(f"b-{number}").outcome == Completed("held on")


def test_no_child_is_left_after_the_worker(bench):
    worker = bench.start(at_once=2)
    for number in range(2):
        bench.ingest("holds", f"a-{number}")
    for number in range(2):
        bench.await_note(f"a-{number}", "started")
    children = {child.pid for child in executors.multiprocessing.active_children()}
    assert len(children) == 2
    for number in range(2):
        bench.let_go(f"a-{number}")
    bench.stop(worker)
    wait_until(lambda: not any(map(is_alive, children)), "the children end")


# Starting


def test_an_executor_that_cannot_be_imported_is_an_outcome_with_a_clear_error(bench, capfd, caplog):
    bench.ingest("no_op", "a")
    bench.ingest("no_op", "b")
    worker = bench.start(broken_executors.execute)
    for name in ("a", "b"):
        outcome = bench.settled(name).outcome
        assert isinstance(outcome, Failed)
        assert "the child process ended while it was starting (exit code 1)" in outcome.reason
    bench.await_counts(worker, failed=2)
    assert worker.running
    assert "this module is broken here" in capfd.readouterr().err
    assert [record.job_id for record in caplog.records if record.levelno == logging.ERROR] == ["a", "b"]


def test_a_job_whose_executor_cannot_be_imported_is_tried_again_within_its_budget(bench, capfd):
    bench.ingest("no_op", "a", budget={"max_attempts": 2, "backoff": bandog.Backoff(0.01)})
    bench.start(broken_executors.execute)
    record = bench.settled("a")
    assert (record.outcome.kind, record.attempts) == ("failed", 2)
    assert "broken" in capfd.readouterr().err


@pytest.mark.parametrize("what", ["lambda", "nested", "bound to a lock"])
def test_an_executor_that_cannot_be_handed_to_a_child_is_refused_before_anything_is_claimed(bench, what):
    def nested(_job, _token):
        """Not importable."""

    class Bound:
        def __init__(self):
            self.lock = threading.Lock()

        def method(self, _job, _token):
            """Not picklable."""

    execute = {"lambda": lambda _job, _token: None, "nested": nested, "bound to a lock": Bound().method}[what]
    bench.ingest("no_op", "a")
    with pytest.raises(bandog.InvalidJob, match="execute: ") as caught:
        bench.start(execute)
    assert caught.value.field == "execute"
    assert bench.queue.read("a").attempts == 0


def test_the_time_that_a_child_takes_to_start_is_not_the_jobs(bench):
    timeout = slow_executors.START / 4
    bench.ingest("noted", "a", budget={"timeout": timeout})
    bench.start(slow_executors.execute)
    assert bench.settled("a").outcome == Completed()


# What passes


def test_a_claimed_job_can_be_pickled(bench):
    job = Job(
        job_id="a",
        queue="q",
        lane="l",
        priority=-3,
        payload={"é": [1, 2.5, None, True, 10**20]},
        max_attempts=7,
        max_recoveries=2,
        timeout=1.5,
    )
    bench.queue.ingest(job)
    bench.queue.fail(claim_one(bench.queue, "a"), "why", retry_in=0.0)
    claim = claim_one(bench.queue, "a")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        copy = pickled(claim, protocol)
        names = [name for name in dir(claim) if not name.startswith("_")]
        assert len(names) >= 16
        assert {name: getattr(copy, name) for name in names} == {name: getattr(claim, name) for name in names}
    # It is the same claim.
    assert bench.queue.acknowledge(pickled(claim), 1).kind == "completed"


def test_a_payload_is_never_unpickled_or_evaluated(bench, tmp_path):
    trap = tmp_path / "trap"
    touch = f"__import__('pathlib').Path({str(trap)!r}).touch()"
    hostile = {
        "pickle": pickle.dumps(Trap(str(trap)), 0).decode(),
        "py": touch,
        "format": "{0.__class__}",
        "percent": "%(x)s",
        "name": "os.system",
        "reduce": {"__reduce__": ["os.system", [f"touch {trap}"]], "py/object": "os.system"},
    }
    bench.queue.ingest(bench.job("echoes", "a", **hostile))
    bench.start(queues="default")
    payload = bench.settled("a").outcome.result[0]
    assert {name: payload[name] for name in hostile} == hostile
    assert not trap.exists()
    # What the claim hands over is text, as it is stored.
    bench.queue.ingest(Job(job_id="b", queue="other", payload=hostile))
    claim = claim_one(bench.queue, "b", queues=["other"])
    assert claim.payload_json.encode() in pickle.dumps(claim)
    assert pickled(claim).payload == hostile
    assert not trap.exists()


class Trap:
    """Would act when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_large_payload_and_result_pass(bench):
    text = "x" * 900_000
    bench.queue.ingest(Job(job_id="a", payload={"do": "echoes", "text": text}))
    bench.start()
    assert bench.settled("a").outcome.result[0]["text"] == text


def test_a_coroutine_function_runs_in_a_child_and_is_cancelled_there(bench):
    bench.ingest("holds", "a")
    bench.ingest("noted", "b")
    bench.start(executors.act_async, kill_after=30.0)
    bench.await_note("a", "started")
    bench.queue.cancel("a", "not wanted")
    assert bench.settled("a").outcome == Cancelled("not wanted")
    assert bench.settled("b").outcome == Completed()


@pytest.mark.parametrize("what", ["CancelledError", "KeyboardInterrupt", "SystemExit", "GeneratorExit", "OwnBase"])
def test_what_a_coroutine_in_a_child_raises_is_one_failure(bench, what):
    bench.ingest("raises", "a", what=what)
    bench.ingest("who", "b")
    bench.ingest("raises", "c", what=what)
    bench.ingest("who", "d")
    bench.start(executors.act_async)
    for name in ("a", "c"):
        assert what in bench.settled(name).outcome.reason
        assert bench.queue.read(name).attempts == 1
    # The child lives.
    assert bench.settled("b").outcome == bench.settled("d").outcome
