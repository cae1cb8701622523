"""Whatever an executor raises or returns: one outcome, a free slot, and the next job runs (C40, C31)."""

import executors
import pytest
from executors import RAISES, UNSTORABLE

from bandog import Cancelled, Completed, Failed, OutcomeUnknown

SHOWN_AS = {
    # Python itself turns it into this at the end of a coroutine.
    ("coroutines", "StopIteration"): "RuntimeError",
    ("async", "StopIteration"): "RuntimeError",
    ("coroutines", "StopAsyncIteration"): "StopAsyncIteration",
    ("async", "StopAsyncIteration"): "StopAsyncIteration",
}


def test_whatever_is_raised_is_one_recorded_failure_and_the_next_job_runs(bench):
    # One slot: a job that kept it would keep all after it from running.
    for number, name in enumerate(RAISES):
        bench.ingest("raises", name, what=name, budget={"max_recoveries": 5, "priority": -number})
        bench.ingest("no_op", f"after-{name}", budget={"priority": -number})
    worker = bench.start(lease=0.5)
    for name in RAISES:
        record = bench.settled(name)
        assert isinstance(record.outcome, Failed), name
        assert SHOWN_AS.get((bench.kind, name), name) in record.outcome.reason, name
        assert bench.settled(f"after-{name}").outcome == Completed()
    bench.await_nothing_held()
    number = len(RAISES)
    bench.await_counts(worker, failed=number, completed=number, claimed=2 * number, started=2 * number)
    assert (worker.stats().running, worker.stats().stale) == (0, 0)
    assert bench.queue.recover() == ((), ())
    assert {bench.queue.read(name).attempts for name in RAISES} == {1}
    assert worker.running


@pytest.mark.kinds("coroutines", "processes")  # on a loop of the host's, the host decides
@pytest.mark.parametrize("what", ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "CancelledError", "OwnBase"])
def test_a_task_that_an_executor_makes_ends_no_worker(bench, what):
    """Asyncio ends its loop for the first two."""
    for number in range(3):
        bench.ingest("raises", f"job-{number}", what=what)
        bench.ingest("no_op", f"next-{number}")
    worker = bench.start(executors.act_in_task)
    for number in range(3):
        assert what in bench.settled(f"job-{number}").outcome.reason
        assert bench.settled(f"next-{number}").outcome == Completed()
    assert worker.running


def test_every_slot_outlives_what_is_raised_in_it(bench):
    names = [name for name in RAISES for _ in range(3)]
    jobs = [bench.job("raises", f"{name}-{number}", what=name) for number, name in enumerate(names)]
    bench.queue.ingest_many(jobs)
    worker = bench.start(at_once=3)
    for job in jobs:
        assert bench.settled(job.job_id).outcome.kind == "failed"
    # All three still work: these wait for each other.
    for number in range(3):
        bench.ingest("holds", f"hold-{number}")
    for number in range(3):
        bench.await_note(f"hold-{number}", "started")
    assert worker.stats().running == 3
    for number in range(3):
        bench.let_go(f"hold-{number}")
        assert bench.settled(f"hold-{number}").outcome == Completed("held on")


def test_a_failure_is_tried_again_within_its_budget(bench):
    bench.ingest(
        "raises", "a", what="ValueError", budget={"max_attempts": 3, "backoff": executors.bandog.Backoff(0.01)}
    )
    worker = bench.start()
    record = bench.settled("a")
    assert (record.outcome.kind, record.attempts, record.charged) == ("failed", 3, 3)
    bench.await_counts(worker, retried=2, failed=1)


def test_a_failure_says_what_was_raised_and_where(bench):
    bench.ingest("raises", "a", what="OwnBase")
    bench.start()
    reason = bench.settled("a").outcome.reason
    assert "OwnBase: own" in reason
    assert executors.__file__ in reason


STORED = {
    "None": Completed(),
    "Completed": Completed({"sum": [1, 2.5, "é", None, True]}),
    "Failed": Failed("said so"),
    "Failed-final": Failed("said so"),
    "Failed-later": Failed("said so"),
    "Failed-number": Failed("5"),
    "Cancelled": Cancelled("by itself"),
    "OutcomeUnknown": OutcomeUnknown({"seen": 1}),
}


def outcomes_of(bench, names, **budget):
    """Have a worker with one slot run jobs that answer so; their records by name."""
    bench.queue.ingest_many([bench.job("answers", name, what=name, budget=budget) for name in names])
    worker = bench.start()
    records = {name: bench.settled(name) for name in names}
    bench.await_nothing_held()
    assert {record.attempts for record in records.values()} == {1}
    assert (worker.stats().running, worker.stats().stale) == (0, 0)
    return records


def test_what_is_returned_is_what_is_recorded(bench):
    records = outcomes_of(bench, STORED)
    for name, expected in STORED.items():
        outcome = records[name].outcome
        assert outcome.kind == expected.kind, name
        for field in ("result", "reason", "evidence"):
            assert getattr(outcome, field, None) == getattr(expected, field, None), name


@pytest.mark.parametrize("answer", ["Snooze", "Release", "Failed-later"])
def test_a_job_that_is_put_back_is_queued_and_charged_as_it_says(bench, answer):
    bench.ingest("answers", "a", what=answer, budget={"max_attempts": 2})
    kinds = {"Snooze": "snoozed", "Release": "released", "Failed-later": "retried"}
    if answer == "Release":
        # It would be claimed again at once.
        worker = bench.worker()
        bench.begin(worker)
        bench.reaches("a", lambda record: record.given_back > 0)
        bench.stop(worker)
    else:
        worker = bench.burst()
    record = bench.queue.read("a")
    assert record.state == "queued"
    assert record.charged == (1 if answer == "Failed-later" else 0)
    assert getattr(worker.stats(), kinds[answer]) == record.attempts
    assert (worker.stats().completed, worker.stats().failed) == (0, 0)


WRONG = [
    "number",
    "true",
    "dict",
    "class",
    "object",
    "Interrupted",
    "Snooze-negative",
    "Snooze-word",
    "Failed-bad-retry",
    "Failed-bad-backoff",
    "Failed-unreadable",
    "RaisingResult",
    "RaisingReason",
    "RaisingKind",
    "RaisingList",
]


def test_what_is_no_outcome_or_cannot_be_read_is_one_failure_that_says_so(bench):
    records = outcomes_of(bench, WRONG, max_recoveries=5)
    for name, record in records.items():
        assert isinstance(record.outcome, Failed), name
        assert record.outcome.reason, name


def test_a_wrong_return_value_is_final_and_names_its_type(bench):
    records = outcomes_of(bench, ["number", "dict", "Interrupted", "RaisingResult"], max_attempts=5)
    assert "int" in records["number"].outcome.reason
    assert "dict" in records["dict"].outcome.reason
    assert "Interrupted" in records["Interrupted"].outcome.reason
    assert "no result" in records["RaisingResult"].outcome.reason


def test_a_result_that_cannot_be_stored_is_a_final_failure_and_never_a_second_run(bench):
    names = [f"result-{name}" for name in UNSTORABLE]
    for name, record in outcomes_of(bench, names, max_attempts=5, max_recoveries=5).items():
        assert isinstance(record.outcome, Failed), name
        assert "result" in record.outcome.reason, name


def test_evidence_that_cannot_be_stored_leaves_the_outcome_unknown(bench):
    names = [f"evidence-{name}" for name in UNSTORABLE] + ["RaisingEvidence", "RaisingList-evidence"]
    for name, record in outcomes_of(bench, names, max_attempts=5, max_recoveries=5).items():
        assert isinstance(record.outcome, OutcomeUnknown), name
        assert "not storable" in str(record.outcome.evidence), name


@pytest.mark.kinds("threads")  # the others await what a function returns
def test_a_coroutine_of_a_plain_function_is_a_failure_that_says_so(bench):
    bench.ingest("no_op", "a")
    bench.start(executors.returns_coroutine)
    assert "the executor returned a coroutine" in bench.settled("a").outcome.reason


def test_the_executor_sees_the_whole_job(bench):
    bench.queue.ingest(bench.job("echoes", "a", budget={"lane": "l", "priority": 3, "timeout": 50.0}))
    bench.start()
    payload, *rest = bench.settled("a").outcome.result
    assert payload == bench.queue.read("a").payload
    assert rest == ["default", "l", 3, 1, 1, None, 50.0]
