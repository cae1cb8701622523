"""The wake: how the host learns that something changed, and when the next work is due."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import TypeAlias

    from bandog._core import Engine

    WakeCallback: TypeAlias = Callable[[datetime | None], object]

__all__ = ["WakeCalls"]

logger = logging.getLogger("bandog.wake")


class WakeCalls:
    """Who is called after durable changes. The thread that calls exists only while there is somebody to call.

    Each callback gets the time of the next due work, an aware ``datetime`` (it may have passed), or ``None`` with
    nothing pending. It is called once when it is added, and then after changes that this queue made, one call for a
    burst of them; never under a lock, so that it may use the queue. What it raises is logged and changes nothing. It
    is a
    hint: changes by other processes are not seen, so that a host also looks now and then.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._callbacks: tuple[WakeCallback, ...] = ()
        self._lock = threading.Lock()

    def add(self, callback: WakeCallback) -> None:
        """Have ``callback`` called, too.

        Raises:
            QueueClosed: the queue was closed.
        """
        with self._lock:
            self._callbacks = (*self._callbacks, callback)
            self._engine.set_wake(self._call)

    def remove(self, callback: WakeCallback) -> None:
        """Have ``callback`` called no more. One that is not there is ignored; a call under way goes on."""
        with self._lock:
            self._callbacks = tuple(other for other in self._callbacks if other != callback)
            if not self._callbacks:
                self._engine.set_wake(None)

    def _call(self, due: datetime | None) -> None:
        for callback in self._callbacks:
            try:
                callback(due)
            except Exception:
                logger.exception("a wake callback raised; the change that it was told of is stored all the same")
