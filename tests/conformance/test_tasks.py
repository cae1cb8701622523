"""Tasks: a registry as the executor of a runtime, on both faces."""

import asyncio
from datetime import timedelta

import pytest
from face import BlockingQueue

import bandog
from bandog import Cancelled, Completed, Failed, Interrupted, Job, OutcomeUnknown, Tick
from bandog.tasks import current_job, current_token


def run(queue, tasks):
    """One tick of a runtime of the queue's face, with the registry itself as its executor."""
    if not isinstance(queue, BlockingQueue):
        return bandog.Watchdog(queue, tasks).tick()

    async def tick():
        async with bandog.AsyncWatchdog(queue.asynchronous, tasks.execute_async) as dog:
            return await dog.tick()

    return queue.thread.call(tick)


def ingest(queue, job):
    return queue.ingest(job).job_id


def one(function, name="task", **options):
    """A registry of one task, and that."""
    tasks = bandog.Tasks()
    return tasks, tasks.task(name, **options)(function)


def outcome_of(queue, answer):
    tasks, task = one(lambda: answer)
    ingest(queue, task.job())
    return run(queue, tasks)


def test_a_task_is_called_with_its_arguments_and_its_result_is_kept(queue):
    tasks, task = one(lambda *args, **kwargs: [args, kwargs])
    ingest(queue, task.options(job_id="a").job(1, [2.5, None], to={"é": True}))
    done = run(queue, tasks)
    assert done == Tick(kind="settled", job_id="a", outcome=Completed([[1, [2.5, None]], {"to": {"é": True}}]))


def test_enqueue_stores_the_job(queue):
    tasks, task = one(lambda number: number + 1, queue="sums", max_attempts=3)
    if isinstance(queue, BlockingQueue):

        async def enqueue():
            return await task.options(job_id="a").enqueue(queue.asynchronous, 4)

        admission = queue.thread.call(enqueue)
    else:
        admission = task.options(job_id="a").enqueue(queue, 4)
    assert admission.kind == "admitted"
    record = queue.read("a")
    assert (record.queue, record.max_attempts) == ("sums", 3)
    assert record.payload == {"task": "task", "args": [4], "kwargs": {}}
    assert run(queue, tasks).outcome == Completed(5)


def test_the_same_call_under_the_same_id_is_a_duplicate_and_another_one_a_conflict(queue):
    _tasks, task = one(lambda number: number)
    task = task.options(job_id="a")
    ingest(queue, task.job(1))
    assert queue.ingest(task.job(1)).kind == "duplicate"
    with pytest.raises(bandog.JobConflict):
        queue.ingest(task.job(2))


def test_an_argument_that_is_no_json_is_refused_with_its_place(queue):
    _tasks, task = one(lambda *_args: None)
    with pytest.raises(bandog.PayloadError) as caught:
        queue.ingest(task.job(1, {2}))
    assert caught.value.path == "$.args[1]"
    assert not queue.has_pending_work()


@pytest.mark.parametrize("answer", [None, 0, False, "", [], {"a": [1]}], ids=repr)
def test_what_a_task_returns_is_its_result(queue, answer):
    assert outcome_of(queue, answer).outcome == Completed(answer)


@pytest.mark.parametrize("answer", [Completed(1), Failed("why"), Cancelled("why"), OutcomeUnknown([1])], ids=repr)
def test_an_outcome_that_a_task_returns_is_its_outcome(queue, answer):
    assert outcome_of(queue, answer).outcome.kind == answer.kind


@pytest.mark.parametrize(("answer", "kind"), [(bandog.Snooze(60), "snoozed"), (bandog.Release(), "released")], ids=str)
def test_a_task_may_put_its_job_back(queue, answer, kind):
    assert outcome_of(queue, answer).kind == kind


def test_what_only_recovery_may_record_and_what_is_no_json_are_failures(queue):
    assert "only recovery may record" in outcome_of(queue, Interrupted("by me")).outcome.reason
    assert outcome_of(queue, object()).outcome.kind == "failed"


def test_what_a_task_raises_is_tried_again(store, queue):
    def fails():
        raise ValueError("why")

    tasks, task = one(fails, max_attempts=2, backoff=bandog.Backoff(5, 5))
    ingest(queue, task.options(job_id="a").job())
    assert run(queue, tasks).kind == "retried"
    assert "ValueError: why" in queue.read("a").error
    assert store.is_about(queue.read("a").available_at, store.now() + timedelta(seconds=5))
    store.advance(6)
    assert run(queue, tasks).outcome.kind == "failed"


WRONG = [
    (None, "it is NoneType, not an object"),
    ("task", "it is str, not an object"),
    ([], "it is list, not an object"),
    ({}, "it has no member task"),
    ({"task": 5}, "its member task is no string"),
    ({"task": "task", "args": {}}, "its member args is no array"),
    ({"task": "task", "kwargs": []}, "its member kwargs is no object"),
    ({"task": "task", "eta": 5}, "it has members beside task, args and kwargs"),
    ({"task": "other"}, "there is no task 'other'; known are 'task'"),
    ({"task": ""}, "there is no task ''; known are 'task'"),
    ({"task": "task"}, "does not take the arguments of this job: missing a required argument: 'number'"),
    ({"task": "task", "args": [1, 2]}, "does not take the arguments of this job: too many positional arguments"),
    ({"task": "task", "args": [1], "kwargs": {"number": 2}}, "multiple values for argument 'number'"),
    ({"task": "task", "args": [1], "kwargs": {"secret": 2}}, "got an unexpected keyword argument 'secret'"),
]


@pytest.mark.parametrize(("payload", "told"), WRONG, ids=lambda value: str(value)[:40])
def test_a_payload_that_names_no_call_is_one_final_failure_that_says_so(store, queue, payload, told):
    ran = []
    tasks, _task = one(lambda number: ran.append(number))  # noqa: PLW0108 - its signature counts
    ingest(queue, Job(job_id="a", payload=payload, max_attempts=5, max_recoveries=5))
    done = run(queue, tasks)
    assert (done.kind, done.outcome.kind) == ("settled", "failed")
    assert told in done.outcome.reason
    store.advance(1000)
    assert run(queue, tasks).kind == "idle"
    assert (queue.read("a").attempts, ran) == (1, [])


def test_an_empty_registry_says_that_none_is_registered(queue):
    ingest(queue, Job(payload={"task": "a"}))
    assert "none is registered" in run(queue, bandog.Tasks()).outcome.reason


def test_arguments_may_be_left_out_of_an_envelope(queue):
    tasks, _task = one(lambda to="nobody": to)
    ingest(queue, Job(payload={"task": "task"}))
    assert run(queue, tasks).outcome == Completed("nobody")
    ingest(queue, Job(payload={"task": "task", "kwargs": {"to": "ada"}}))
    assert run(queue, tasks).outcome == Completed("ada")


def test_a_task_sees_its_job_and_its_token_and_nobody_else_does(queue):
    def looks():
        token = current_token()
        return [current_job().job_id, current_job().attempt, token.aborted]

    tasks, task = one(looks)
    ingest(queue, task.options(job_id="a").job())
    assert run(queue, tasks).outcome == Completed(["a", 1, False])
    with pytest.raises(LookupError):
        current_job()


def test_a_task_is_told_of_a_cancellation(queue):
    def waits():
        queue.cancel("a", "no longer wanted")
        token = current_token()
        assert token.wait(30)
        return Cancelled(token.detail)

    tasks, task = one(waits)
    ingest(queue, task.options(job_id="a").job())
    assert run(queue, tasks).outcome == Cancelled("no longer wanted")


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_coroutine_functions_need_the_asynchronous_face(queue):
    async def coroutine():
        await asyncio.sleep(0)
        return "done"

    tasks, task = one(coroutine)
    ingest(queue, task.job())
    outcome = run(queue, tasks).outcome
    if isinstance(queue, BlockingQueue):
        assert outcome == Completed("done")
    else:
        assert outcome.kind == "failed"
