"""Tasks: functions that are enqueued by name, with their own arguments, and the executor that calls them.

A registry is optional, and thin: it makes the payload ``{"task": name, "args": […], "kwargs": {…}}``, and calls the
function of that name with those arguments. Nothing of a payload is imported or evaluated: what can be called is what
was registered.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import threading
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypedDict, TypeVar, cast, overload

from bandog.errors import InvalidJob
from bandog.job import Job
from bandog.outcome import Cancelled, Completed, Failed, Interrupted, OutcomeUnknown, Release, Snooze

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from datetime import datetime, timedelta
    from typing import Unpack

    from bandog._core import Admission, CancellationToken, ClaimedJob
    from bandog.async_queue import AsyncQueue
    from bandog.job import Backoff
    from bandog.outcome import Report
    from bandog.queue import Queue

__all__ = ["JobOptions", "Task", "TaskOptions", "Tasks", "current_job", "current_token"]

_P = ParamSpec("_P")
_R_co = TypeVar("_R_co", covariant=True)
_T = TypeVar("_T")

_ANSWERS = (Completed, Failed, Cancelled, OutcomeUnknown, Snooze, Release, Interrupted)
_ENVELOPE = {"task", "args", "kwargs"}

SHOWN_NAMES = 20
"""How many names of tasks a failure tells, so that the record of a job stays small."""

_job: contextvars.ContextVar[ClaimedJob] = contextvars.ContextVar("bandog.tasks.job")
_token: contextvars.ContextVar[CancellationToken] = contextvars.ContextVar("bandog.tasks.token")


class TaskOptions(TypedDict, total=False):
    """The fields of a :class:`bandog.Job` that a task may set for all its jobs. Meanings and defaults are those."""

    queue: str
    lane: str
    priority: int
    max_attempts: int | None
    max_recoveries: int | None
    backoff: Backoff | None
    timeout: float | timedelta | None


class JobOptions(TaskOptions, total=False):
    """Those, and the ones that belong to a single job."""

    job_id: str | None
    available_at: datetime | None
    delay: float | timedelta | None


_JOB_OPTIONS = frozenset(field.name for field in fields(Job)) - {"payload"}
_TASK_OPTIONS = _JOB_OPTIONS - {"job_id", "available_at", "delay"}


class Task(Generic[_P, _R_co]):
    """A function that can be enqueued; made by :meth:`Tasks.task`. Calling it calls the function, here and now.

    Attributes:
        name: what payloads call it.
        is_async: whether it is a coroutine function.
    """

    def __init__(self, name: str, function: Callable[_P, _R_co], template: Job) -> None:
        """Use :meth:`Tasks.task`."""
        # Not the function's own attributes: one of them could be called as ours.
        functools.update_wrapper(self, function, updated=())
        self.name = name
        self.is_async = _is_async(function)
        self._function = function
        self._template = template
        try:
            self._signature = inspect.signature(function)
        except (TypeError, ValueError):
            message = f"function: the arguments of task {name!r} cannot be told; wrap it in a function of your own"
            raise InvalidJob(message, field="function") from None

    def __repr__(self) -> str:
        return f"<bandog.Task {self.name!r}>"

    def __reduce__(self) -> str:
        # By name, as a function, so that a registry can be sent to a worker's child process.
        return cast("str", getattr(self, "__qualname__", self.name))

    def __call__(self, /, *args: _P.args, **kwargs: _P.kwargs) -> _R_co:
        """Call the function, without a queue."""
        return self._function(*args, **kwargs)

    def options(self, **changes: Unpack[JobOptions]) -> Task[_P, _R_co]:
        """The same task with other options, as in ``send.options(job_id="welcome-42", delay=60).enqueue(queue, …)``.

        Args:
            changes: fields of :class:`bandog.Job`, the payload excepted. What is not named stays as the task has it.

        Returns:
            A new task; this one is not changed.
        """
        _check_names(changes, _JOB_OPTIONS)
        return Task(self.name, self._function, replace(self._template, **changes))

    def job(self, /, *args: _P.args, **kwargs: _P.kwargs) -> Job:
        """The job that calls the function with these arguments, for ``ingest`` and ``ingest_many``.

        Raises:
            InvalidJob: the function does not take these arguments.
        """
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            message = f"arguments: task {self.name!r} does not take these: {error}"
            raise InvalidJob(message, field="arguments", job_id=self._template.job_id) from None
        return replace(self._template, payload={"task": self.name, "args": list(args), "kwargs": kwargs})

    @overload
    def enqueue(self, queue: Queue, /, *args: _P.args, **kwargs: _P.kwargs) -> Admission: ...

    @overload
    def enqueue(self, queue: AsyncQueue, /, *args: _P.args, **kwargs: _P.kwargs) -> Coroutine[Any, Any, Admission]: ...

    def enqueue(self, queue: Queue | AsyncQueue, /, *args: _P.args, **kwargs: _P.kwargs) -> Any:
        """Store a job that calls the function with these arguments, which must be JSON values.

        Args:
            queue: an open queue. With an ``AsyncQueue`` the admission is to be awaited.
            args: the function's positional arguments.
            kwargs: the function's keyword arguments.

        Returns:
            What :meth:`bandog.Queue.ingest` returns.

        Raises:
            InvalidJob: the function does not take these arguments.
            PayloadError: an argument that is no JSON value, with its path, as in ``$.args[0]``.
            JobConflict, LaneFull, StoreError: see :meth:`bandog.Queue.ingest`.
        """
        return queue.ingest(self.job(*args, **kwargs))

    def call_of(self, args: list[Any], kwargs: dict[str, Any]) -> Callable[[], Any]:
        """The call that a payload asks for, not made yet. For registries.

        Raises:
            TypeError: the function does not take these arguments.
        """
        bound = self._signature.bind(*args, **kwargs)
        return functools.partial(self._function, *bound.args, **bound.kwargs)


class Tasks:
    """A registry of tasks, and the executor that runs them: ``Watchdog(queue, tasks)``.

    A payload that is no envelope of a task, names one that is not registered, or has arguments that the function does
    not take is a final failure that says so. What a task returns is the result of its job; ``None`` means none, and an
    outcome (``Snooze(60)``, ``Failed(…)``) is one. What it raises is a failure, as of any executor.

    Where one of the tasks is a coroutine function (:attr:`is_async`), a call returns an awaitable, for
    ``AsyncWatchdog(queue, tasks)``; plain functions of the same registry then run in threads of the loop's default
    executor. Where none is, a call runs the function and returns its outcome; ``AsyncWatchdog(queue,
    tasks.execute_async)`` runs such a registry beside the loop. Register everything before the runtime is made.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, Task[..., Any]] = {}
        self._is_async = False

    def __repr__(self) -> str:
        return f"<bandog.Tasks {', '.join(sorted(self._tasks)) or 'none'}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the registered tasks, sorted."""
        return tuple(sorted(self._tasks))

    @property
    def is_async(self) -> bool:
        """Whether a call returns an awaitable: whether any task is a coroutine function."""
        return self._is_async

    @overload
    def task(self, name: Callable[_P, _T], /) -> Task[_P, _T]: ...

    @overload
    def task(
        self, name: str | None = None, **options: Unpack[TaskOptions]
    ) -> Callable[[Callable[_P, _T]], Task[_P, _T]]: ...

    def task(self, name: Any = None, **options: Unpack[TaskOptions]) -> Any:
        """Register a function: ``@tasks.task``, or ``@tasks.task("send_email", queue="mail", max_attempts=5)``.

        Jobs find their function by its name, also after a deployment: give names that outlive a renaming.

        Args:
            name: what payloads call it, at least one character. Default: the function's qualified name, without its
                module.
            options: fields of the jobs that :meth:`Task.enqueue` makes: ``queue``, ``lane``, ``priority``,
                ``max_attempts``, ``max_recoveries``, ``backoff``, ``timeout``. Defaults are those of
                :class:`bandog.Job`.

        Returns:
            The :class:`Task`, in place of the function.

        Raises:
            InvalidJob: the name is taken, or no name.
        """
        _check_names(options, _TASK_OPTIONS)
        if name is None or isinstance(name, str):
            return functools.partial(self._register, name, Job(**options))
        return self._register(None, Job(**options), name)

    def _register(self, name: str | None, template: Job, function: Callable[..., Any]) -> Task[..., Any]:
        if not callable(function):
            message = f"function: must be callable, not {type(function).__name__}"
            raise InvalidJob(message, field="function")
        if name is None:
            name = getattr(function, "__qualname__", "")
        if not name:
            message = "name: must have at least one character; give one, as in @tasks.task('send_email')"
            raise InvalidJob(message, field="name")
        if name in self._tasks:
            message = f"name: a task {name!r} is registered already; give this one another name"
            raise InvalidJob(message, field="name")
        task = self._tasks[name] = Task(name, function, template)
        self._is_async |= task.is_async
        return task

    def __call__(self, job: ClaimedJob, token: CancellationToken, /) -> Any:
        """Run the task of a claimed job.

        Returns:
            Its outcome; where :attr:`is_async`, an awaitable of it.
        """
        return self.execute_async(job, token) if self.is_async else self._execute(job, token)

    def _execute(self, job: ClaimedJob, token: CancellationToken) -> Report:
        call = self._find(job.payload)
        if isinstance(call, Failed):
            return call
        before = _job.set(job), _token.set(token)
        try:
            value = call()
        finally:
            _token.reset(before[1])
            _job.reset(before[0])
        if inspect.iscoroutine(value):
            value.close()
            return Failed(
                "the task returned a coroutine that nothing awaits: register a coroutine function (async def) itself",
                retry=False,
            )
        return _answer(value)

    async def execute_async(self, job: ClaimedJob, token: CancellationToken) -> Report:
        """Run the task of a claimed job from an event loop: coroutine functions there, plain ones in a thread.

        A plain function cannot be interrupted: cancelling the task that awaits it waits for its end, and what it
        reports stands. It sees the cancellation token. One that had not started yet is released.
        """
        call = self._find(job.payload)
        if isinstance(call, Failed):
            return call
        # Never reset: a coroutine that is collected unfinished ends in another context, where that is an error.
        _job.set(job)
        _token.set(token)
        value = await (call() if _is_async(call) else _beside_the_loop(call))
        if inspect.isawaitable(value):
            value = await value
        return _answer(value)

    def _find(self, payload: Any) -> Callable[[], Any] | Failed:
        """The call that a payload asks for, or why there is none."""
        problem = _envelope_problem(payload)
        if problem is not None:
            return Failed(
                f'the payload is no task: {problem}. It must be {{"task": name, "args": [...], "kwargs": {{...}}}}, as '
                "Task.enqueue makes it",
                retry=False,
            )
        name = payload["task"]
        task = self._tasks.get(name)
        if task is None:
            return Failed(f"there is no task {_short(name)}; {self._known()}", retry=False)
        try:
            return task.call_of(payload.get("args", []), payload.get("kwargs", {}))
        except TypeError as error:
            return Failed(f"task {name!r} does not take the arguments of this job: {error}", retry=False)

    def _known(self) -> str:
        if not self._tasks:
            return "none is registered"
        names = ", ".join(map(repr, self.names[:SHOWN_NAMES]))
        more = len(self._tasks) - SHOWN_NAMES
        return f"known are {names}{f' and {more} more' if more > 0 else ''}"


def current_job() -> ClaimedJob:
    """The job whose task is running here.

    Raises:
        LookupError: no task of a registry is running here, as when its function was called directly.
    """
    return _current(_job, "current_job")


def current_token() -> CancellationToken:
    """The cancellation token of the job whose task is running here. Errors are those of :func:`current_job`."""
    return _current(_token, "current_token")


def _current(variable: contextvars.ContextVar[_T], name: str) -> _T:
    try:
        return variable.get()
    except LookupError:
        message = f"{name}() is for the body of a task that a runtime runs; here the function was called directly"
        raise LookupError(message) from None


async def _beside_the_loop(call: Callable[[], Any]) -> Any:
    """Call a plain function in a thread, and wait for its end whatever happens to this task."""
    import asyncio  # noqa: PLC0415 - whoever awaits has it loaded already, and the others need not

    starts = threading.Lock()  # held for good by whoever decides first: the thread that starts, or who gives up

    def run() -> tuple[Any, BaseException | None]:
        # As a value: a future refuses StopIteration, and takes CancelledError for its own.
        if not starts.acquire(blocking=False):
            return None, None
        try:
            return call(), None
        except BaseException as error:  # noqa: BLE001 - raised again in the task
            return None, error

    try:
        ended = asyncio.get_running_loop().run_in_executor(None, contextvars.copy_context().run, run)
    except RuntimeError:
        return Release()  # the loop is shutting down, or there is no thread to be had: it never started
    while not ended.done():
        try:
            await asyncio.wait([ended])
        except asyncio.CancelledError:
            if starts.acquire(blocking=False):
                return Release()
    value, error = ended.result()
    try:
        if error is not None:
            raise error
        return value
    finally:
        del value, error  # no frame keeps a traceback that keeps it


def _answer(value: Any) -> Report:
    if isinstance(value, _ANSWERS):
        return cast("Report", value)  # Interrupted is none that may be reported, and what runs the task says so
    return Completed(value)


def _envelope_problem(payload: Any) -> str | None:
    """What is wrong with a payload that should name a task. Its contents are not repeated: they may be secret."""
    if not isinstance(payload, dict):
        return f"it is {type(payload).__name__}, not an object"
    envelope = cast("dict[str, Any]", payload)
    if not isinstance(envelope.get("task"), str):
        return "its member task is no string" if "task" in envelope else "it has no member task"
    if not isinstance(envelope.get("args", []), list):
        return "its member args is no array"
    if not isinstance(envelope.get("kwargs", {}), dict):
        return "its member kwargs is no object"
    if envelope.keys() - _ENVELOPE:
        return "it has members beside task, args and kwargs"
    return None


def _short(name: str) -> str:
    longest = 100
    return repr(name if len(name) <= longest else f"{name[:longest]}…")


def _is_async(function: Any) -> bool:
    """Whether a call returns a coroutine. A partial or an object with such a ``__call__`` counts too."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _check_names(options: Any, allowed: frozenset[str]) -> None:
    for name in options:
        if name not in allowed:
            message = f"{name!r} is no option here; known are {', '.join(sorted(allowed))}"
            raise TypeError(message)
