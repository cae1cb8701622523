"""The progress bar of ``worker --burst``: on a terminal, in a thread of its own, gone when the worker stops.

It only looks: once at the store, to know how much there is to do, then ten times a second at the worker's counts, which
are kept anyway.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from bandog.errors import BandogError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from bandog.events import WorkerStats
    from bandog.queue import Queue
    from bandog.worker import Worker

__all__ = ["ProgressBar"]

LOOK = 0.1
"""Seconds between two looks."""

PATIENCE = 1.0
"""Seconds that the bar has to go away. A store that fails may keep it from counting for longer."""

COUNTED = 1_000_000
"""Jobs of one queue that are counted. Beyond that the bar has no end: counting would take longer than it tells."""

DONE = ("completed", "failed", "cancelled", "outcome_unknown", "interrupted")


class ProgressBar:
    """Shows how far a worker is, while the context is open and the worker runs."""

    def __init__(self, queue: Queue, worker: Worker, queues: tuple[str, ...]) -> None:
        """``queues``: those of the worker; empty for all."""
        self._queue = queue
        self._worker = worker
        self._queues = queues
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, name="bandog-progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join(PATIENCE)

    def _show(self) -> None:
        console = Console(stderr=True, markup=False, highlight=False, emoji=False)
        if not console.is_interactive:
            return
        while not self._worker.running:
            if self._over.wait(LOOK):
                return
        columns = (TextColumn("working"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        # What executors print is moved above the bar, where they print to the terminal.
        redirect = sys.stdout is not None and sys.stdout.isatty()  # pyright: ignore[reportUnnecessaryComparison] - (>&-)
        total = self._total()
        with Progress(
            *columns, console=console, transient=True, auto_refresh=False, redirect_stdout=redirect
        ) as progress:
            task = progress.add_task("", total=total)
            # A worker that was told to stop says so in its log, and a second signal must not leave a bar behind.
            while self._worker.running:
                stats = self._worker.stats()
                known = _done(stats) + stats.running + stats.waiting + stats.unrecorded
                if total is not None:
                    total = max(total, known)  # more was enqueued, or recovered
                speed = progress.tasks[0].speed
                words = [f"{stats.failed + stats.interrupted} failed", *([f"{speed:,.0f}/s"] if speed else [])]
                progress.update(task, completed=_done(stats), total=total, description=", ".join(words), refresh=True)
                if self._over.wait(LOOK):
                    return

    def _total(self) -> int | None:
        """How many jobs there are to do, those that are done already included; ``None`` where nobody can tell."""
        done = _done(self._worker.stats())
        with suppress(BandogError):  # it is the worker that has to deal with a store that fails
            of_queues = self._queue.stats(bound=COUNTED).queues
            counts = [counts for name, counts in of_queues.items() if not self._queues or name in self._queues]
            if all(count.due < COUNTED for count in counts):
                return done + sum(count.due + count.running for count in counts)
        return None


def _done(stats: WorkerStats) -> int:
    return sum(getattr(stats, name) for name in DONE)
