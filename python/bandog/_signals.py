"""Signals for a worker that runs in the main thread: the first asks it to stop, the second ends the process.

The handlers only note what has come, in ways that are safe in the middle of anything.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["handled"]

logger = logging.getLogger("bandog.worker")

LAST_CALL = 0.8
"""Seconds from the second signal to the end of the process, if it has not ended by itself."""


@contextmanager
def handled(on_signal: Callable[[int, bool], None]) -> Generator[None]:
    """Have ``on_signal(number, again)`` called for SIGINT and SIGTERM, and the former handlers put back afterwards.

    Outside the main thread Python allows no handlers: then nothing is done but a warning, and whoever owns the main
    thread calls ``stop()``.
    """
    if threading.current_thread() is not threading.main_thread():
        logger.warning("this worker runs outside the main thread, where signals cannot be handled: stop it with stop()")
        yield
        return
    received: list[int] = []
    last_call: list[threading.Timer] = []

    def handle(number: int, _frame: object) -> None:
        received.append(number)
        again = len(received) > 1
        if again and not last_call:
            timer = threading.Timer(LAST_CALL, os._exit, (128 + number,))
            timer.daemon = True
            last_call.append(timer)
            timer.start()
        on_signal(number, again)

    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in former:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in former.items():
            # A handler that was not set from Python cannot be put back from it.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        # The last call stands: what the program still has to do, closing a queue that is locked say, has no more time.
