"""`Tasks`: registering, the jobs that tasks make, and coroutine functions on an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bandog
from bandog.tasks import SHOWN_NAMES, current_job, current_token

shared = bandog.Tasks()


@shared.task("add", queue="sums", lane="small", priority=3, max_attempts=4, max_recoveries=2, timeout=9.0)
def add(left: int, right: int = 1, /, *, sign: int = 1) -> int:
    """Add two numbers."""
    return sign * (left + right)


def test_a_task_is_its_function_still() -> None:
    assert add(2, 3, sign=-1) == -5
    assert (add.__doc__, add.__name__, add.__module__) == ("Add two numbers.", "add", __name__)
    assert str(inspect.signature(add)) == "(left: 'int', right: 'int' = 1, /, *, sign: 'int' = 1) -> 'int'"
    assert repr(add) == "<bandog.Task 'add'>"
    assert repr(shared) == "<bandog.Tasks add>"
    assert shared.names == ("add",)


def test_a_job_has_the_envelope_and_the_options_of_its_task() -> None:
    assert add.job(2, sign=-1) == bandog.Job(
        payload={"task": "add", "args": [2], "kwargs": {"sign": -1}},
        queue="sums",
        lane="small",
        priority=3,
        max_attempts=4,
        max_recoveries=2,
        timeout=9.0,
    )


def test_options_make_another_task_and_leave_the_first_one() -> None:
    other = add.options(job_id="a", delay=60, queue="other", backoff=bandog.Backoff(2, 8), max_attempts=None)
    assert other.job(1) == bandog.Job(
        payload={"task": "add", "args": [1], "kwargs": {}},
        job_id="a",
        delay=60,
        queue="other",
        lane="small",
        priority=3,
        max_recoveries=2,
        timeout=9.0,
        backoff=bandog.Backoff(2, 8),
    )
    assert other(2, 3) == 5
    assert add.job(1).job_id is None


def test_a_name_is_the_qualified_name_unless_one_is_given() -> None:
    tasks = bandog.Tasks()

    @tasks.task
    def plain() -> None: ...

    @tasks.task()
    def called() -> None: ...

    @tasks.task(priority=1)
    def with_options() -> None: ...

    @tasks.task(name="given")
    def named() -> None: ...

    here = test_a_name_is_the_qualified_name_unless_one_is_given.__name__
    assert [task.name for task in (plain, called, with_options, named)] == [
        f"{here}.<locals>.plain",
        f"{here}.<locals>.called",
        f"{here}.<locals>.with_options",
        "given",
    ]


def test_a_name_that_is_taken_is_refused_and_the_first_one_stays() -> None:
    tasks = bandog.Tasks()
    tasks.task("a")(lambda: 1)
    with pytest.raises(bandog.InvalidJob, match="'a' is registered already") as caught:
        tasks.task("a")(lambda: 2)
    assert caught.value.field == "name"
    assert tasks.names == ("a",)


@pytest.mark.parametrize(
    ("register", "field"),
    [
        (lambda tasks: tasks.task("")(add), "name"),
        (lambda tasks: tasks.task("x")("no function"), "function"),
        (lambda tasks: tasks.task(7), "function"),
        (lambda tasks: tasks.task(functools.partial(add, 1)), "name"),  # a partial has none
        (lambda tasks: tasks.task("builtin")(type), "function"),
    ],
)
def test_what_cannot_be_registered_is_refused(register: Callable[[bandog.Tasks], object], field: str) -> None:
    tasks = bandog.Tasks()
    with pytest.raises(bandog.InvalidJob) as caught:
        register(tasks)
    assert caught.value.field == field
    assert tasks.names == ()


@pytest.mark.parametrize("option", ["job_id", "delay", "available_at", "payload", "retries"])
def test_an_option_that_is_none_is_refused(option: str) -> None:
    options: dict[str, Any] = {option: 1}
    with pytest.raises(TypeError, match=f"'{option}' is no option here; known are backoff, "):
        bandog.Tasks().task("a", **options)
    if option in {"payload", "retries"}:
        with pytest.raises(TypeError, match="is no option here"):
            add.options(**options)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((), {}), ((1, 2, 3), {}), ((1,), {"right": 2}), ((1,), {"other": 2})],
    ids=str,
)
def test_arguments_that_the_function_does_not_take_are_refused_before_anything_is_stored(
    arguments: tuple[Any, ...], named: dict[str, Any]
) -> None:
    with pytest.raises(bandog.InvalidJob, match="task 'add' does not take these") as caught:
        add.options(job_id="a").job(*arguments, **named)
    assert (caught.value.field, caught.value.job_id) == ("arguments", "a")


def test_a_function_may_have_arguments_called_as_ours() -> None:
    @bandog.Tasks().task("odd")
    def odd(self: int, queue: int, name: int, **others: int) -> list[int]:
        return [self, queue, name, *others.values()]

    assert odd(self=1, queue=2, name=3, task=4) == [1, 2, 3, 4]
    payload = odd.job(self=1, queue=2, name=3, task=4).payload
    assert payload["kwargs"] == {"self": 1, "queue": 2, "name": 3, "task": 4}


def test_an_attribute_of_the_function_does_not_change_the_task() -> None:
    def function() -> int:
        return 1

    function.name = "other"  # type: ignore[attr-defined]
    function._function = None  # type: ignore[attr-defined]
    task = bandog.Tasks().task("mine")(function)
    assert (task.name, task()) == ("mine", 1)


def test_a_registry_can_be_sent_to_another_process() -> None:
    tasks = pickle.loads(pickle.dumps(shared))  # noqa: S301 - made on the same line
    assert tasks.names == ("add",)
    assert pickle.loads(pickle.dumps(add)) is add  # noqa: S301


def test_nothing_runs_outside_a_task() -> None:
    for ask in (current_job, current_token):
        with pytest.raises(LookupError, match=rf"{ask.__name__}\(\) is for the body of a task"):
            ask()


def test_whether_a_registry_is_asynchronous() -> None:
    tasks = bandog.Tasks()
    assert not tasks.is_async

    async def coroutine(_number: int) -> None: ...

    class Callable_:  # noqa: N801
        async def __call__(self) -> None: ...

    tasks.task("plain")(lambda: None)
    assert not tasks.is_async
    tasks.task("partial")(functools.partial(coroutine, 1))
    assert tasks.is_async
    assert bandog.Tasks().task("object")(Callable_()).is_async


# On an event loop


def settled(folder: Path, tasks: Any, *jobs: bandog.Job, execute: Any = None) -> list[bandog.JobRecord]:
    """The records of jobs, each run by one tick."""

    async def main() -> list[bandog.JobRecord]:
        async with (
            await bandog.connect_async(folder / "jobs.sqlite") as queue,
            bandog.AsyncWatchdog(queue, execute or tasks) as dog,
        ):
            admissions = await queue.ingest_many(jobs)
            for _job in jobs:
                await dog.tick()
            return [await queue.read(admission.job_id) for admission in admissions]

    return asyncio.run(main())


def test_coroutine_functions_run_on_the_loop_and_plain_ones_beside_it(tmp_path: Path) -> None:
    tasks = bandog.Tasks()
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    @tasks.task("coroutine")
    async def coroutine(number: int) -> dict[str, Any]:
        await asyncio.sleep(0)
        asyncio.get_running_loop()
        variable.set("by a task")
        return {"job": current_job().job_id, "number": number, "aborted": current_token().aborted}

    @tasks.task("plain")
    def plain(number: int) -> dict[str, Any]:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        main = threading.current_thread() is threading.main_thread()
        return {"job": current_job().job_id, "number": number, "main": main, "variable": variable.get()}

    assert coroutine.is_async
    first, second = settled(
        tmp_path, tasks, coroutine.options(job_id="a").job(1), plain.options(job_id="b").job(number=2)
    )
    assert first.outcome == bandog.Completed({"job": "a", "number": 1, "aborted": False})
    assert second.outcome == bandog.Completed({"job": "b", "number": 2, "main": False, "variable": "unset"})


def test_a_registry_of_plain_functions_can_run_beside_a_loop(tmp_path: Path) -> None:
    tasks = bandog.Tasks()

    @tasks.task("plain")
    def plain() -> bool:
        return threading.current_thread() is threading.main_thread()

    (beside,) = settled(tmp_path, tasks, plain.job(), execute=tasks.execute_async)
    (here,) = settled(tmp_path, tasks, plain.job())
    assert (beside.outcome, here.outcome) == (bandog.Completed(False), bandog.Completed(True))


@pytest.mark.parametrize("error", [ValueError("why"), StopIteration("why"), asyncio.CancelledError("why")], ids=repr)
def test_what_a_plain_function_raises_beside_a_loop_is_a_failure(tmp_path: Path, error: BaseException) -> None:
    tasks = bandog.Tasks()

    @tasks.task("plain")
    def plain() -> None:
        raise error

    (record,) = settled(tmp_path, tasks, plain.job(), execute=tasks.execute_async)
    assert isinstance(record.outcome, bandog.Failed)
    assert type(error).__name__ in record.outcome.reason


def test_a_plain_function_that_returns_an_awaitable_is_awaited_on_the_loop(tmp_path: Path) -> None:
    tasks = bandog.Tasks()

    async def later() -> int:
        return 7

    tasks.task("hidden")(lambda: later())  # noqa: PLW0108 - what it returns is to be a surprise
    job = bandog.Job(payload={"task": "hidden"})
    (record,) = settled(tmp_path, tasks, job, execute=tasks.execute_async)
    assert record.outcome == bandog.Completed(7)
    with bandog.connect(tmp_path / "other.sqlite") as queue:
        queue.ingest(job)
        outcome = bandog.Watchdog(queue, tasks).tick().outcome
    assert isinstance(outcome, bandog.Failed)
    assert outcome.reason.startswith("the task returned a coroutine that nothing awaits")


def test_a_wrong_payload_is_a_failure_on_a_loop_too(tmp_path: Path) -> None:
    tasks = bandog.Tasks()

    @tasks.task("a")
    async def _task() -> None: ...

    (record,) = settled(tmp_path, tasks, bandog.Job(payload={"task": "b"}, max_attempts=5))
    assert record.outcome == bandog.Failed("there is no task 'b'; known are 'a'", retry=True)
    assert record.attempts == 1


def test_enqueueing_on_an_asynchronous_queue_is_awaited(tmp_path: Path) -> None:
    async def main() -> bandog.JobRecord:
        async with await bandog.connect_async(tmp_path / "jobs.sqlite") as queue:
            admission = await add.options(job_id="a").enqueue(queue, 2, sign=-1)
            assert admission.kind == "admitted"
            with pytest.raises(bandog.InvalidJob):
                add.enqueue(queue)  # pyright: ignore[reportCallIssue]
            return await queue.read("a")

    assert asyncio.run(main()).payload == {"task": "add", "args": [2], "kwargs": {"sign": -1}}


def test_cancelling_waits_for_a_plain_function_that_has_started(tmp_path: Path) -> None:
    tasks = bandog.Tasks()
    started, finish = threading.Event(), threading.Event()

    @tasks.task("plain")
    def plain() -> str:
        started.set()
        assert finish.wait(30)
        return "to its end"

    async def main() -> bandog.JobRecord:
        async with (
            await bandog.connect_async(tmp_path / "jobs.sqlite") as queue,
            bandog.AsyncWatchdog(queue, tasks.execute_async) as dog,
        ):
            await plain.options(job_id="a").enqueue(queue)
            tick = asyncio.create_task(dog.tick())
            await asyncio.to_thread(started.wait, 30)
            tick.cancel()
            await asyncio.sleep(0.01)
            assert (await queue.read("a")).state == "running", "the function still is"
            finish.set()
            await asyncio.wait([tick])
            return await queue.read("a")

    assert asyncio.run(main()).outcome == bandog.Completed("to its end")


def test_a_plain_function_that_never_started_is_released(tmp_path: Path) -> None:
    tasks = bandog.Tasks()
    ran: list[int] = []
    busy = threading.Event()

    @tasks.task("plain")
    def plain() -> None:
        ran.append(1)

    async def main() -> bandog.JobRecord:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        blocker = loop.run_in_executor(None, busy.wait, 30)
        async with (
            await bandog.connect_async(tmp_path / "jobs.sqlite") as queue,
            bandog.AsyncWatchdog(queue, tasks.execute_async) as dog,
        ):
            await plain.options(job_id="a").enqueue(queue)
            tick = asyncio.create_task(dog.tick())
            while (await queue.read("a")).state == "queued":  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.001)
            tick.cancel()
            await asyncio.wait([tick])
            busy.set()
            await blocker
            return await queue.read("a")

    record = asyncio.run(main())
    assert (record.state, record.given_back, ran) == ("queued", 1, [])


def test_a_failure_names_some_of_many_tasks(tmp_path: Path) -> None:
    tasks = bandog.Tasks()
    for number in range(SHOWN_NAMES + 5):
        tasks.task(f"task-{number:03}")(lambda: None)
    with bandog.connect(tmp_path / "jobs.sqlite") as queue:
        queue.enqueue({"task": "x" * 1000})
        outcome = bandog.Watchdog(queue, tasks).tick().outcome
    assert isinstance(outcome, bandog.Failed)
    assert outcome.reason.startswith(f"there is no task '{'x' * 100}…'; known are 'task-000', ")
    assert outcome.reason.endswith("'task-019' and 5 more")
