"""The worker: a long-running process, or part of one, that drains a queue.

Claims come from a native thread, which asks for as many jobs as there are free slots; executors (threads, coroutines or
child processes) run them; their reports go back without waiting, and are committed in groups together with the next
claims. While a job runs its claim is renewed by a native thread, whatever the executor does to the interpreter.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
import time
import weakref
from contextlib import suppress
from datetime import timedelta
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

from bandog import _loops
from bandog._coroutines import Coroutines
from bandog._native import core
from bandog._operations import DEFAULT_LEASE, default_worker, queue_names
from bandog._processes import Processes
from bandog._signals import handled
from bandog._threads import Threads
from bandog.errors import InvalidJob, WorkerStateError
from bandog.events import Event, WorkerStats

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Sequence
    from types import TracebackType
    from typing import Self

    from bandog._core import CancellationToken, ClaimedJob, Pool, RuntimeLock
    from bandog._operations import Seconds
    from bandog.async_queue import AsyncQueue
    from bandog.outcome import Report
    from bandog.queue import Queue

    Execute: TypeAlias = Callable[[ClaimedJob, CancellationToken], Report | Awaitable[Report | None] | None]
    OnEvents: TypeAlias = Callable[[list[Event]], object]

__all__ = ["Worker"]

logger = logging.getLogger("bandog.worker")

THREADS = 16
"""Jobs at once where the executor is a plain function."""

COROUTINES = 100
"""Jobs at once where it is a coroutine function."""

MOST_PROCESSES = 10_000
"""More children than any machine runs."""

GRACE = 25.0
"""Seconds that running jobs have after a stop. A container is usually killed 30 seconds after it was told to stop."""

PATIENCE = 0.7
"""Seconds that executors have to stop after their tokens were aborted, and then the store to record the rest. With the
end of the event loop and of the process these are less than two seconds, as promised."""

STEP = 0.02
"""Seconds between two looks while a worker stops."""

GLANCE = 0.5
"""Seconds between two looks for a signal. One that comes after the interpreter has last looked and before the thread
sleeps wakes nobody: one stop in forty was lost so on a busy machine.
"""


class Worker:
    """Runs the jobs of a queue until it is stopped. A context manager that starts and stops it.

    The executor is called with the claimed job and its cancellation token; it returns an outcome, or ``None`` for
    ``Completed()``, and raising means ``Failed``. A plain function runs in threads; a coroutine function runs on an
    event loop; with ``processes`` either runs in child processes. Each job runs in a copy of the context in which the
    worker was started. One that ends with :class:`bandog.JobAborted`, or as a cancelled coroutine, because its token
    was aborted has stopped as it was told: cancelled, ``Failed`` for a timeout, put back uncharged for a shutdown.
    """

    def __init__(  # noqa: PLR0913 - settings, all of them named
        self,
        queue: Queue | AsyncQueue,
        execute: Execute,
        *,
        concurrency: int | None = None,
        queues: Sequence[str] | str | None = None,
        lease: Seconds = DEFAULT_LEASE,
        grace: float = GRACE,
        prefetch: int = 0,
        processes: int | None = None,
        timeout: Seconds | None = None,
        kill_after: float = 5.0,
        poll: Seconds = 1.0,
        worker: str | None = None,
        on_events: OnEvents | None = None,
    ) -> None:
        """Make a worker; nothing is claimed before it is started.

        Args:
            queue: an open queue, which stays the caller's to close. Keep it open until the worker has stopped.
            execute: see above. With ``processes`` it must be importable (a function of a module).
            concurrency: how many jobs run at once. Default 16 threads or 100 coroutines; with ``processes`` it is their
                number.
            queues: the queues to run; ``None`` (the default) for all of them.
            lease: seconds (float) or ``timedelta`` after which the jobs of a worker that died are recovered. Default
                120.
            grace: seconds that running jobs have to finish after :meth:`stop`. Default 25.
            prefetch: how many jobs are claimed ahead of need, for many short jobs. Those that were not started when the
                worker stops are handed back uncharged; those of a worker that dies wait for the end of their leases.
            processes: how many child processes run the jobs; ``None`` (the default) for none.
            timeout: seconds (float) or ``timedelta`` after which the token of a job that brings no timeout is aborted.
            kill_after: seconds that a child process has to stop after its job's token was aborted. Default 5.
            poll: the longest time, seconds (float) or ``timedelta``, between two looks at an idle queue. Changes are
                noticed at once; this is for those that go unnoticed. Default 1.
            worker: a name for the record; ``None`` for host and process.
            on_events: called with a list of :class:`bandog.Event` after changes were recorded, from a thread of
                bandog's. It should return soon.

        Raises:
            InvalidJob: an argument that is not allowed; most are checked when the worker is started.
        """
        if not callable(execute):
            message = f"execute: must be callable, not {type(execute).__name__}"
            raise InvalidJob(message, field="execute")
        if not isinstance(getattr(queue, "engine", None), core.Engine):
            message = f"queue: must be a Queue or an AsyncQueue, not {type(queue).__name__}"
            raise InvalidJob(message, field="queue")
        if on_events is not None and not callable(on_events):
            message = f"on_events: must be callable, not {type(on_events).__name__}"
            raise InvalidJob(message, field="on_events")
        if processes is not None and concurrency is not None:
            message = "concurrency: cannot be given together with processes, which run one job each"
            raise InvalidJob(message, field="concurrency")
        if processes is not None and not (type(processes) is int and 1 <= processes <= MOST_PROCESSES):
            message = f"processes: must be an int from 1 to {MOST_PROCESSES}, not {processes!r}"
            raise InvalidJob(message, field="processes")
        self._queue = queue
        self._execute = execute
        self._is_async = _is_async(execute) and processes is None
        self._processes = processes
        default = COROUTINES if self._is_async else THREADS
        self._concurrency = processes if processes is not None else default if concurrency is None else concurrency
        self._queues = queue_names(queues)
        self._lease = lease
        self._grace = _seconds("grace", grace)
        self._prefetch = prefetch
        self._timeout = timeout
        self._kill_after = _seconds("kill_after", kill_after)
        self._poll = poll
        self._worker = default_worker() if worker is None else worker
        self._on_events = on_events
        # What a signal handler or another thread asks for. Putting is safe in the middle of anything.
        self._orders: SimpleQueue[str] = SimpleQueue()
        self._wake_runner: Callable[[], object] = _nothing
        self._has_runner = False
        self._exit_code: int | None = None
        self._state = "new"
        self._changing = threading.Lock()
        self._stopped = threading.Event()
        self._last_stats: dict[str, Any] = {}
        self._pool: Pool | None = None
        self._part: RuntimeLock | None = None
        self._executors: Threads | Coroutines | Processes | None = None

    def __repr__(self) -> str:
        return f"<bandog.Worker {self._worker!r} {self._state}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # Running

    def run(self, *, burst: bool = False) -> None:
        """Run until :meth:`stop`, SIGINT or SIGTERM; returns once the worker has stopped.

        The first signal stops it as :meth:`stop` does; a second one ends the process within a second. Outside the main
        thread signals are not handled.

        Args:
            burst: stop by itself once no job is due in its queues and all that were started are recorded.

        Raises:
            SystemExit: after a second signal.
            RuntimeConflict: a runtime with a liveness probe runs the jobs of this file.
            WorkerStateError: it was started before.
            InvalidJob: a setting that is not allowed. StoreError: the store failed while the worker started.
        """
        if self._is_async:
            _loops.run(self.run_async(burst=burst))
            return
        with handled(self._on_signal):
            if self._begin(None, _nothing):
                try:
                    self._wait(burst=burst)
                finally:
                    _drive(self._stop())
        self._check_exit_code()

    async def run_async(self, *, burst: bool = False) -> None:
        """As :meth:`run`, on the running event loop. Cancelling the task stops the worker, and then goes on."""
        with handled(self._on_signal):
            await self._run_on_loop(burst=burst)
        self._check_exit_code()

    def start(self) -> None:
        """Start in the background. A coroutine executor gets an event loop in a thread of its own.

        Raises:
            RuntimeConflict, WorkerStateError, InvalidJob, StoreError: as for :meth:`run`.
        """
        if not self._is_async:
            self._begin(None)
            return
        begun: SimpleQueue[BaseException | None] = SimpleQueue()

        def body() -> None:
            try:
                _loops.run(self._run_on_loop(burst=False, begun=begun.put))
            except BaseException as error:  # noqa: BLE001 - it is raised where the worker is started
                begun.put(error)

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(body,), name="bandog-worker-loop", daemon=True).start()
        error = begun.get()
        if error is not None:
            raise error

    def stop(self, grace: float | None = None, *, wait: bool = True) -> None:
        """Claim nothing more, let running jobs finish within ``grace`` seconds, then abort their tokens.

        Jobs that were claimed and not started are handed back at once, and those that stop when they are told to as
        well, both uncharged. A child process that still runs is killed, and its job recovered. The lease of another
        job that still runs is kept as long as the queue is open; then it lapses, and the job is recovered. Stopping
        twice is allowed; a worker that was not started yet never will be.

        Args:
            grace: instead of the worker's.
            wait: return once it has stopped, which takes at most ``grace`` and two seconds; ``False``: at once, for
                callers in an executor or on the worker's event loop.
        """
        if grace is not None:
            self._grace = _seconds("grace", grace)
        with self._changing:
            if self._state == "new":
                self._state = "stopped"
                self._stopped.set()
        if self._pool is not None:
            self._pool.running()  # in a forked child this raises: the worker is its parent's
        if self._has_runner:
            self._order("stop")
        elif wait:
            _drive(self._stop())
        else:
            threading.Thread(target=_drive, args=(self._stop(),), name="bandog-worker-stop", daemon=True).start()
        if wait:
            self._stopped.wait(self._grace + 3 * PATIENCE)

    # Looking

    @property
    def running(self) -> bool:
        """Whether it claims and runs jobs. False means that nothing is consumed here."""
        return self._state == "running"

    def stats(self) -> WorkerStats:
        """What it does now, and has done."""
        pool = self._pool
        if pool is not None:
            self._last_stats = pool.stats()
        return WorkerStats(state=self._state, **self._last_stats)

    # Inside

    def _begin(self, loop: asyncio.AbstractEventLoop | None, wake_runner: Callable[[], object] | None = None) -> bool:
        """Start; whether it did: a stop that came first is not forgotten.

        With ``wake_runner`` the caller is who carries out orders from then on.
        """
        with self._changing:
            if self._state == "stopped" and not self._last_stats:
                return False
            if self._state != "new":
                message = f"this worker is {self._state}: make a new one for another run"
                raise WorkerStateError(message, state=self._state)
            engine = self._queue.engine
            executors = self._make_executors(loop)
            part = engine.lock_runtime(self._lease, False)  # noqa: FBT003 - the first claim adopts
            try:
                self._pool = engine.start_pool(_Settings(self, executors))
            except BaseException:
                part.release()
                raise
            self._part, self._executors = part, executors
            if wake_runner is not None:
                self._has_runner, self._wake_runner = True, wake_runner
            executors.start(self._pool, self._on_end)
            self._last_stats = self._pool.stats()
            self._state = "running"
        logger.info("worker %s has started: %d jobs at once", self._worker, self._concurrency)
        return True

    def _make_executors(self, loop: asyncio.AbstractEventLoop | None) -> Threads | Coroutines | Processes:
        if self._processes is not None:
            return Processes(self._execute, self._processes, self._kill_after, self._queue.engine.payload_limit)
        context = contextvars.copy_context()
        if loop is not None and self._is_async:
            return Coroutines(self._execute, context, loop)
        return Threads(self._execute, self._concurrency, context)

    async def _run_on_loop(self, *, burst: bool, begun: Callable[[None], object] | None = None) -> None:
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        began = self._begin(loop, partial(_wake, loop, woken))
        if begun is not None:
            begun(None)
        if not began:
            return
        try:
            while self._orders.empty() and not (burst and self._is_drained(0.0)):
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), STEP if burst else GLANCE)
        finally:
            # Shielded: cancelling once more must not leave claims behind.
            await asyncio.shield(loop.create_task(_drive_async(self._stop())))

    def _on_end(self) -> None:
        """There will be no more jobs. Where nobody stopped the worker, its queue was closed."""
        if self._state == "running":
            logger.error("worker %s stops: its queue was closed while it ran", self._worker)
            self.stop(wait=False)

    def _wait(self, *, burst: bool) -> None:
        """Sleep until there is an order. Only a burst looks now and then."""
        while burst and self._orders.empty():
            if self._is_drained(0.1):
                return
        while True:
            with suppress(Empty):
                self._orders.get(timeout=GLANCE)
                return

    def _is_drained(self, patience: float) -> bool:
        return self._pool is None or self._pool.wait("drained", patience)

    def _order(self, order: str) -> None:
        self._orders.put(order)
        self._wake_runner()

    def _on_signal(self, number: int, again: bool) -> None:  # noqa: FBT001 - as signals call it
        if again:
            self._exit_code = 128 + number
        self._order("stop")

    def _check_exit_code(self) -> None:
        if self._exit_code is not None:
            raise SystemExit(self._exit_code)

    def _stop(self) -> Generator[float, None, None]:
        """The steps of a stop; each yields how long to wait before the next."""
        with self._changing:
            pool, executors, part = self._pool, self._executors, self._part
            if self._state != "running" or pool is None or executors is None or part is None:
                return
            self._state = "stopping"
        began = time.monotonic()
        logger.info("worker %s stops: %d jobs have %g s to finish", self._worker, len(pool.running()), self._grace)
        pool.drain()
        yield from self._until(lambda: not pool.running(), self._grace)
        if pool.running():
            pool.abort()
            yield from self._until(lambda: not pool.running(), PATIENCE)
            executors.kill()
            # Until the deaths of processes are noticed; threads cannot be killed, and are not waited for.
            yield from self._until(lambda: not pool.running(), PATIENCE / 2 if self._processes else STEP)
        yield from self._until(lambda: _is_recorded(pool), PATIENCE)
        if self._on_events is not None:
            pool.flush(PATIENCE / 2)  # what is told of the last jobs comes before the end
        part.release()
        self._last_stats = pool.stats()
        for job_id in pool.running():
            logger.warning("job %r did not stop: it is abandoned, and recovered once its lease ends", job_id)
        if unrecorded := self._last_stats["unrecorded"]:
            problem = self._last_stats["problem"] or "the store gives no answer"
            logger.warning("%d reports were not recorded: their jobs are recovered later: %s", unrecorded, problem)
        logger.info("worker %s has stopped, after %.1f s", self._worker, time.monotonic() - began)
        self._pool, self._executors, self._part = None, None, None
        self._state = "stopped"
        self._stopped.set()

    def _until(self, done: Callable[[], bool], patience: float) -> Generator[float, None, None]:
        until = time.monotonic() + patience
        while not done() and time.monotonic() < until and self._exit_code is None:
            yield STEP


class _Settings:
    """What the engine reads when it starts a pool; it checks them there."""

    def __init__(self, worker: Worker, executors: Threads | Coroutines | Processes) -> None:
        inside = vars(worker)
        self.worker = inside["_worker"]
        self.queues = inside["_queues"]
        self.lease = inside["_lease"]
        self.concurrency = inside["_concurrency"]
        self.prefetch = inside["_prefetch"]
        self.timeout = inside["_timeout"]
        self.poll = inside["_poll"]
        on_events = inside["_on_events"]
        self.on_events = None if on_events is None else partial(_tell, on_events)
        # Weakly: the engine's end of this cannot be seen by the garbage collector.
        self.on_available = _weakly(executors) if isinstance(executors, Coroutines) else None


def _weakly(executors: Coroutines) -> Callable[[], None]:
    reference = weakref.ref(executors)

    def available() -> None:
        if (found := reference()) is not None:
            found.available()

    return available


def _tell(on_events: OnEvents, events: list[tuple[Any, ...]]) -> None:
    try:
        on_events([Event(*event) for event in events])
    except Exception:
        logger.exception("a callback for events raised; what it was told of is recorded all the same")


def _is_async(execute: Any) -> bool:
    """Whether an executor belongs on an event loop; an object may say so itself, as a registry of tasks does."""
    if inspect.iscoroutinefunction(execute) or inspect.iscoroutinefunction(getattr(execute, "__call__", None)):  # noqa: B004
        return True
    if isinstance(execute, partial):
        return _is_async(execute.func)
    return getattr(execute, "is_async", False) is True


def _seconds(field: str, value: Any) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        message = f"{field}: must be seconds from 0, as int or float, or a timedelta, not {value!r}"
        raise InvalidJob(message, field=field)
    return float(value)


def _is_recorded(pool: Pool) -> bool:
    """Whether the store knows all that it can. A claim that was under way when the stop came has to be handed back."""
    return not pool.stats()["unrecorded"] and (bool(pool.running()) or pool.wait("drained", 0.0))


def _nothing() -> None:
    """In place of a loop that would have to be woken."""


def _wake(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop was closed
        loop.call_soon_threadsafe(woken.set)


def _drive(steps: Generator[float, None, None]) -> None:
    for pause in steps:
        time.sleep(pause)


async def _drive_async(steps: Generator[float, None, None]) -> None:
    for pause in steps:
        await asyncio.sleep(pause)
