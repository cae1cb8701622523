"""A timer that drives a watchdog from a thread of its own.

A tick follows a tick while there is work; then the timer sleeps until the next work is due, a change is reported (see
:mod:`bandog.wake`), or ``poll`` seconds have passed, whichever comes first. Polling alone is correct: it finds what
other processes admitted.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bandog.errors import QueueClosed, StoreError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from bandog.queue import Queue
    from bandog.watchdog import Watchdog

__all__ = ["LONGEST_RETREAT", "POLL", "RESTING", "Timer", "seconds_until"]

logger = logging.getLogger("bandog.timer")

POLL = 1.0
"""Seconds between two looks at an idle queue."""

RESTING = {"idle", "busy", "liveness_unknown"}
"""Ticks after which there is nothing to do at once."""

LONGEST_RETREAT = 30.0
"""Seconds between two attempts at a store that keeps failing."""


def seconds_until(due: datetime | None, poll: float) -> float:
    """How long to sleep: until ``due``, but no longer than ``poll`` seconds."""
    if due is None:
        return poll
    return max(0.0, min(poll, (due - datetime.now(UTC)).total_seconds()))


class Timer:
    """Ticks a :class:`bandog.watchdog.Watchdog` in a thread of its own. A context manager that starts and stops it."""

    def __init__(self, queue: Queue, watchdog: Watchdog, *, poll: float = POLL) -> None:
        """Make a timer.

        Args:
            queue: the queue of the watchdog.
            watchdog: what to tick. An executor that raises ``KeyboardInterrupt`` stops the timer.
            poll: the longest sleep, seconds. Default 1.
        """
        self._queue = queue
        self._watchdog = watchdog
        self._poll = poll
        self._stopping = threading.Event()
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

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

    def start(self) -> None:
        """Start ticking. Starting twice is allowed."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, name="bandog-timer", daemon=True)
            self._thread.start()
            self._queue.wake.add(self._wake)

    def stop(self) -> None:
        """Start no more ticks, and wait for the one under way. Stopping twice is allowed."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stopping.set()
        self._changed.set()
        with suppress(QueueClosed):
            self._queue.wake.remove(self._wake)
        thread.join()

    def _wake(self, _due: datetime | None) -> None:
        self._changed.set()

    def _run(self) -> None:
        retreat = self._poll
        while not self._stopping.is_set():
            self._changed.clear()
            try:
                tick = self._watchdog.tick()
                retreat = self._poll
                if tick.kind not in RESTING:
                    continue
                pause = seconds_until(self._queue.next_wake(), self._poll)
            except QueueClosed:
                return
            except StoreError as error:
                logger.warning("a tick failed and is tried again in %.0f s: %s", retreat, error)
                self._stopping.wait(retreat)
                retreat = min(retreat * 2, LONGEST_RETREAT)
                continue
            except Exception:
                # A timer that ends without a word would leave the queue to grow.
                logger.exception("a tick raised and is tried again in %.0f s", retreat)
                self._stopping.wait(retreat)
                retreat = min(retreat * 2, LONGEST_RETREAT)
                continue
            except KeyboardInterrupt:
                logger.warning("an executor raised KeyboardInterrupt; the timer stops")
                return
            self._changed.wait(pause)
