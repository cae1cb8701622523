"""A worker that is told to stop while it starts: `starting.py FILE HOW MOMENT`. Says `stopped` at the end.

MOMENT is `before` (`stop()` comes before `run()`), `inside` (the signal comes while it starts, before it claims) or
seconds after `run()` was called, which may be before it can handle a signal.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import Any

import handlers

import bandog


class Telling:
    """A queue that sends the signal when a worker that starts asks for its handle."""

    def __init__(self, queue: bandog.Queue) -> None:
        self.queue = queue
        self.is_armed = False

    @property
    def engine(self) -> Any:
        if self.is_armed:
            self.is_armed = False
            tell()
        return self.queue.engine


def tell() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    path, how, moment = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    options: dict[str, Any] = {"processes": 2} if how == "processes" else {"concurrency": 2}
    execute = handlers.execute_async if how == "coroutines" else handlers.execute
    with bandog.connect(path) as queue:
        telling = Telling(queue)
        given: Any = telling if moment == "inside" else queue
        worker = bandog.Worker(given, execute, grace=0.2, **options)
        if moment == "before":
            worker.stop()
        elif moment != "inside":
            threading.Timer(float(moment), tell).start()
        telling.is_armed = True
        worker.run()
    print("stopped", flush=True)


if __name__ == "__main__":
    main()
