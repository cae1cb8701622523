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
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from bandog import _child
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
        """``kill_after``: seconds that a child has to stop after its job's token was aborted."""
        self._execute = execute
        self._processes = processes
        self._kill_after = kill_after
        self._payload_limit = payload_limit
        self._keepers: list[_Keeper] = []

    def start(self, pool: Pool) -> None:
        """Start the children. They end once the pool has no more jobs."""
        for number in range(1, self._processes + 1):
            keeper = _Keeper(pool, self._execute, self._kill_after, self._payload_limit)
            self._keepers.append(keeper)
            threading.Thread(target=keeper.run, name=f"bandog-child-{number}", daemon=True).start()

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

    def run(self) -> None:
        try:
            self._spawn()
            while (task := self._pool.next()) is not None:
                self._run_job(*task)
                del task
        finally:
            self._end()

    def kill_running(self) -> None:
        child = self._child
        if self._running and child is not None:
            child.kill()

    def _spawn(self) -> None:
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
        except BaseException as error:
            logger.exception("no child process could be started for job %r", job.job_id)
            self._pool.finish(slot, Failed(f"no child process could be started: {error}"))
            return
        self._running = True
        aborted, aborts = self._context.Pipe(duplex=False)
        token.add_callback(lambda reason: _tell(aborts, reason))
        try:
            pipe.send(("job", job))
            report = self._report(pipe, aborted, token)
        except OSError:
            report = None  # it died in the middle of a message
        finally:
            self._running = False
            aborted.close()
        if report is not None:
            self._pool.finish(slot, report)
            return
        self._lost(slot, job, token)

    def _ready_pipe(self) -> Any:
        """The pipe of a child that has started."""
        child: Any = None
        for _ in range(2):
            if self._pipe is None or self._child is None or not self._child.is_alive():
                self._end()
                self._spawn()
            if self._has_started or self._says_ready():
                return self._pipe
            child = self._child
            child.kill()
            child.join()
        code = child.exitcode
        message = f"the child process ended while it was starting (exit code {code}): see what it wrote to stderr"
        raise RuntimeError(message)

    def _says_ready(self) -> bool:
        """Wait until the child has started; false where it died before, since its executor cannot be imported, say."""
        pipe = self._pipe
        try:
            self._has_started = pipe is not None and pipe.poll(SLOWEST_START) and pipe.recv() == "ready"
        except (EOFError, OSError):
            return False
        return self._has_started

    def _report(self, pipe: Connection, aborted: Connection, token: CancellationToken) -> Any:
        """Wait for the report; ``None`` once the child is dead."""
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
        child = self._child
        child.join(5.0)
        code = child.exitcode
        fields = {"job_id": job.job_id, "queue": job.queue, "attempt": job.attempt}
        logger.warning("the process of job %r died with exit code %s", job.job_id, code, extra=fields)
        self._end()
        if token.reason == "timeout":
            reason = (
                "the job took longer than its timeout; its process did not stop when it was told to, and was killed"
            )
            self._pool.finish(slot, Failed(reason))
        else:
            told = f" after it was told to stop ({token.reason})" if token.aborted else ""
            self._pool.lose(slot, f"its process died with exit code {code}{told}")


def _tell(aborts: Connection, reason: str) -> None:
    try:
        aborts.send(reason)
    except OSError:
        pass  # the job has ended meanwhile
    finally:
        aborts.close()


def _leave() -> None:
    """``multiprocessing`` asks children to end when the interpreter does, and waits for them. Ours leave such requests to
    their parent, and would wait for its end."""
    for keeper in list(_keepers):
        keeper.leave()


# After that of `multiprocessing`, and so called before it.
atexit.register(_leave)
