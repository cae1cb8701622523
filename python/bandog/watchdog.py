"""The tick-driven runtime of the first seed: the host owns the timer, each tick runs at most one job."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bandog._ticking import Tick, Ticking, drive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self, TypeAlias

    from bandog._core import CancellationToken, ClaimedJob
    from bandog._operations import Seconds
    from bandog._ticking import IsAlive
    from bandog.outcome import Report
    from bandog.queue import Queue

    Execute: TypeAlias = Callable[[ClaimedJob, CancellationToken], Report | None]

__all__ = ["Tick", "Watchdog"]


class Watchdog(Ticking):
    """Runs one job per :meth:`tick`. A context manager that closes it; the queue stays the caller's to close.

    While an executor runs, its claim is renewed by a native thread, whatever the executor does to the interpreter.
    """

    def __init__(
        self,
        queue: Queue,
        execute: Execute,
        *,
        queues: Sequence[str] | str | None = None,
        lease: Seconds | None = None,
        worker: str | None = None,
        is_alive: IsAlive | None = None,
    ) -> None:
        """Make a runtime.

        Args:
            queue: an open queue.
            execute: called with the claimed job and its cancellation token, in the thread of :meth:`tick`. It returns
                an outcome, or ``None`` for ``Completed()``; raising means ``Failed``.
            queues: the queues to run; ``None`` (the default) for all of them.
            lease: seconds (float) or ``timedelta`` after which the job of a dead runtime is recovered. Default 120.
            worker: a name for the record; ``None`` for host and process.
            is_alive: a liveness probe instead of leases (seed 1, SQLite only): called with the record of the oldest
                running job at the start of each tick, in turn with the other running ones. ``False`` recovers it;
                raising leaves it alone. Such a runtime must be the only one of its file.

        Raises:
            RuntimeConflict: a runtime with ``is_alive`` beside any other runtime of the same file.
            InvalidJob: an argument that is not allowed.
        """
        super().__init__(queue, execute, queues, lease, worker, is_alive)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def tick(self) -> Tick:
        """Recover lost claims, then claim and run one job. Single-flight: a second tick meanwhile returns ``busy``.

        An exception of the executor is a failure of the job, ``SystemExit`` included; ``KeyboardInterrupt`` is recorded
        as one and then raised again, so that Ctrl-C stops the host.

        Raises:
            StoreBusy, StorageFull, StoreFailed: nothing was claimed; or, after an executor has returned, its outcome
                could not be recorded before the lease ended: the job is recovered within its budgets.
        """
        if not self._ticking.acquire(blocking=False):
            return Tick(kind="busy")
        try:
            tick: Tick = drive(self._steps())
            return tick
        finally:
            self._ticking.release()
