"""Executors in child processes, for work that keeps the interpreter busy or that must be killable.

A thread of the worker looks after each child: it hands over a job and waits for the report, for the child's death, or
for the abort of the job's token, whichever comes first. A child that goes on after it was told to stop is killed.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import os
import threading
import time
import weakref
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

from bandog import _child
from bandog._threads import fields_of
from bandog.errors import InvalidJob
from bandog.outcome import Failed

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from bandog._core import CancellationToken, ClaimedJob, Pool

__all__ = ["Processes"]

logger = logging.getLogger("bandog.worker")

SLOWEST_START = 60.0
"""Seconds that a child may take to start and import what the executor needs."""

_keepers: weakref.WeakSet[_Keeper] = weakref.WeakSet()
"""Whose children may live when the interpreter ends."""


class Processes:
    """So many child processes that run jobs of one pool."""

    def __init__(self, execute: Callable[..., Any], processes: int, kill_after: float, payload_limit: int) -> None:
        """``kill_after``: seconds that a child has to stop after its job's token was aborted.

        Raises:
            InvalidJob: the executor cannot be handed to a child process.
        """
        try:
            ForkingPickler.dumps(execute)
        except Exception as error:
            message = f"execute: cannot be handed to a child process; make it a function of a module: {error}"
            raise InvalidJob(message, field="execute") from error
        self._execute = execute
        self._processes = processes
        self._kill_after = kill_after
        self._payload_limit = payload_limit
        self._keepers: list[_Keeper] = []

    def start(self, pool: Pool, on_end: Callable[[], object]) -> None:
        """Start the children. They end once the pool has no more jobs, and then ``on_end`` is called."""
        for number in range(1, self._processes + 1):
            keeper = _Keeper(pool, self._execute, self._kill_after, self._payload_limit)
            self._keepers.append(keeper)
            threading.Thread(target=keeper.run, args=(on_end,), name=f"bandog-child-{number}", daemon=True).start()

    def kill(self) -> None:
        """Kill the children that still run a job."""
        for keeper in self._keepers:
            keeper.kill_running()


class _Keeper:
    """Looks after one child at a time."""

    def __init__(self, pool: Pool, execute: Callable[..., Any], kill_after: float, payload_limit: int) -> None:
        self._pool = pool
        self._execute = execute
        self._kill_after = kill_after
        self._payload_limit = payload_limit
        self._context = multiprocessing.get_context("spawn")
        self._child: Any = None
        self._pipe: Connection | None = None
        self._has_started = False
        self._running = False
        # Held while the child is started, ended or killed; kept for good once the interpreter ends.
        self._changing = threading.RLock()
        self._made_in = os.getpid()
        _keepers.add(self)

    def run(self, on_end: Callable[[], object]) -> None:
        try:
            self._get_ready()
            while (task := self._pool.next()) is not None:
                self._run_job(*task)
                del task
                self._get_ready()
            on_end()
        finally:
            self._end()

    def _get_ready(self) -> None:
        """Have a child started before a job is taken: the job's time counts from then."""
        with suppress(Exception):  # the next job tries again, and fails with what it finds
            self._ensure_child()
            if not self._has_started:
                self._says_ready()

    def kill_running(self) -> None:
        with self._changing:
            if self._running and self._child is not None:
                self._child.kill()

    def leave(self) -> None:
        """The interpreter ends: the child ends first, and the keeper starts no other."""
        if self._made_in != os.getpid():
            return  # in a forked process, whose parent the child belongs to
        self._changing.acquire()
        child = self._child
        if child is not None and child.pid is not None:
            child.kill()
            child.join()

    def _spawn(self) -> None:
        with self._changing:
            self._has_started = False
            self._pipe, theirs = self._context.Pipe()
            arguments = (theirs, self._execute, self._payload_limit)
            self._child = self._context.Process(target=_child.main, args=arguments, name="bandog-child", daemon=True)
            try:
                self._child.start()
            finally:
                theirs.close()

    def _end(self) -> None:
        """An idle child ends by itself when its pipe closes."""
        with self._changing:
            pipe, self._pipe = self._pipe, None
            child, self._child = self._child, None
            if pipe is not None:
                pipe.close()
            if child is not None and child.pid is not None:
                child.join(1.0)
                if child.is_alive():
                    child.kill()
                    child.join()
                child.close()

    def _run_job(self, slot: int, job: ClaimedJob, token: CancellationToken) -> None:
        """Have the child run a job; whatever happens, the slot is finished."""
        try:
            pipe = self._ready_pipe()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the job gets its outcome
            _log(logging.ERROR, job, "no child process could be started for job %r: %s", job.job_id, error)
            self._pool.finish(slot, Failed(f"no child process could be started: {error}"))
            return
        self._running = True
        aborted, aborts = self._context.Pipe(duplex=False)
        token.add_callback(lambda reason: _tell(aborts, reason))
        try:
            pipe.send(("job", job))
            answer = self._answer(pipe, aborted, token)
        except OSError:
            answer = None  # it died in the middle of a message
        finally:
            self._running = False
            aborted.close()
        if answer is None:
            self._lost(slot, job, token)
            return
        report, trouble = answer
        self._pool.finish(slot, report)
        if trouble is not None:
            _log(logging.WARNING, job, "job %r raised (attempt %d):\n%s", job.job_id, job.attempt, trouble)

    def _ready_pipe(self) -> Any:
        """The pipe of a child that has started."""
        child: Any = None
        for _ in range(2):
            self._ensure_child()
            if self._has_started or self._says_ready():
                return self._pipe
            child = self._child
            child.join(1.0)  # it may be writing what its trouble is
            child.kill()
            child.join()
        code = child.exitcode
        message = f"the child process ended while it was starting (exit code {code}): see what it wrote to stderr"
        raise RuntimeError(message)

    def _ensure_child(self) -> None:
        if self._pipe is None or self._child is None or not self._child.is_alive():
            self._end()
            self._spawn()

    def _says_ready(self) -> bool:
        """Wait until the child has started; false where it died before, since its executor cannot be imported, say."""
        pipe = self._pipe
        try:
            self._has_started = pipe is not None and pipe.poll(SLOWEST_START) and pipe.recv() == "ready"
        except (EOFError, OSError):
            return False
        return self._has_started

    def _answer(self, pipe: Connection, aborted: Connection, token: CancellationToken) -> Any:
        """Wait for the report, and the traceback of a failure if any; ``None`` once the child is dead."""
        kill_at: float | None = None
        waits: list[Any] = [pipe, self._child.sentinel, aborted]
        while True:
            left = None if kill_at is None else max(0.0, kill_at - time.monotonic())
            ready = wait(waits, left)
            if pipe in ready:
                try:
                    return pipe.recv()
                except (EOFError, OSError):
                    return None
            if self._child.sentinel in ready:
                return None
            if aborted in ready:
                waits.remove(aborted)
                kill_at = time.monotonic() + self._kill_after
                pipe.send(("abort", token.reason, token.detail))
            elif kill_at is not None and time.monotonic() >= kill_at:
                self._child.kill()
                kill_at = None

    def _lost(self, slot: int, job: ClaimedJob, token: CancellationToken) -> None:
        """The child is dead, and nobody knows how far it came."""
        with self._changing:
            self._child.join(5.0)
            code = self._child.exitcode
        _log(logging.WARNING, job, "the process of job %r died with exit code %s", job.job_id, code)
        self._end()
        if token.reason == "timeout":
            reason = (
                "the job took longer than its timeout; its process did not stop when it was told to, and was killed"
            )
            self._pool.finish(slot, Failed(reason))
        else:
            told = f" after it was told to stop ({token.reason})" if token.aborted else ""
            self._pool.lose(slot, f"its process died with exit code {code}{told}")


def _log(level: int, job: ClaimedJob, message: str, *arguments: object) -> None:
    # A filter or handler of the host's may raise, and must not cost the job its outcome and the worker its child.
    with suppress(BaseException):
        logger.log(level, message, *arguments, extra=fields_of(job))


def _tell(aborts: Connection, reason: str) -> None:
    try:
        aborts.send(reason)
    except OSError:
        pass  # the job has ended meanwhile
    finally:
        aborts.close()


def _leave() -> None:
    """End all children. ``multiprocessing`` would ask them to, which they leave to their parent, and wait for them."""
    for keeper in list(_keepers):
        keeper.leave()


# After that of `multiprocessing`, and so called before it.
atexit.register(_leave)
