"""A worker whose executor is a registry of tasks."""

import os

import pytest
import worker_tasks
from steps import wait_until
from worker_tasks import add, add_async, add_plain, fails, hangs, mixed, plain, whoami

import bandog
from bandog import Cancelled, Completed, Failed


def enqueue(bench, task, job_id, *args, **kwargs):
    bench.queue.ingest(task.options(job_id=job_id).job(*args, **kwargs))


@pytest.mark.kinds("threads", "async", "processes")
def test_tasks_are_called_with_their_arguments(bench):
    enqueue(bench, add, "a", 3, right=4)
    enqueue(bench, fails, "b")
    enqueue(bench, whoami, "c")
    worker = bench.start(plain)
    assert bench.settled("a").outcome == Completed(7)
    assert "ValueError: as told" in bench.settled("b").outcome.reason
    pid, job_id, aborted = bench.settled("c").outcome.result
    assert (job_id, aborted) == ("c", False)
    assert (pid == os.getpid()) == (bench.kind != "processes")
    assert worker.running


@pytest.mark.kinds("coroutines", "async", "processes")
def test_a_registry_with_coroutine_functions_runs_both_kinds(bench):
    for number in range(10):
        enqueue(bench, add_async, f"async-{number}", number, right=1)
        enqueue(bench, add_plain, f"plain-{number}", number, right=1)
    bench.start(mixed, at_once=4)
    for number in range(10):
        assert bench.settled(f"async-{number}").outcome == Completed(number + 1)
        assert bench.settled(f"plain-{number}").outcome == Completed(number + 1)


@pytest.mark.kinds("coroutines", "async", "processes")
def test_a_task_is_cancelled(bench):
    enqueue(bench, hangs, "a")
    worker = bench.start(mixed)
    wait_until(lambda: worker.stats().running == 1, "it runs")
    bench.queue.cancel("a", "not wanted")
    assert bench.settled("a").outcome == Cancelled("not wanted")


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        ({"task": "missing"}, "there is no task 'missing'"),
        ({"task": "add", "args": [1, 2, 3]}, "does not take the arguments"),
        ({"task": "os.system", "args": ["true"]}, "there is no task"),
        ("no envelope", "is no task"),
        (None, "is no task"),
    ],
)
@pytest.mark.kinds("threads", "processes")
def test_a_payload_that_is_no_task_is_a_final_failure_and_no_crash_loop(bench, payload, says):
    bench.queue.enqueue(payload, job_id="a", max_attempts=5)
    enqueue(bench, add, "b", 1)
    bench.start(plain)
    record = bench.settled("a")
    assert isinstance(record.outcome, Failed)
    assert says in record.outcome.reason
    assert record.attempts == 1
    assert bench.settled("b").outcome == Completed(1)


@pytest.mark.kinds("threads")
def test_a_coroutine_task_registered_late_is_not_missed(bench):
    """The registry grows an event loop's need between the worker's making and its start."""
    tasks = bandog.Tasks()
    late = tasks.task("late")(worker_tasks.add_async._function)
    enqueue(bench, late, "a", 1, right=2)
    bench.burst(tasks)
    assert bench.settled("a").outcome == Completed(3)
