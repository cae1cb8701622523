"""Ends the interpreter while a worker runs in the background: `leaving.py FILE HOW STATE END`. Says `ready` at the end.

STATE is `idle`, `busy` (short jobs come and go), `running` (jobs that would stop if they were told) or `hung`. END is
`return`, `exit` (with code 3, in the main thread), `error` (an exception that nobody catches) or `stopping`, where
another thread is in the middle of `stop()`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import handlers

import bandog

HELD: list[object] = []
"""What lives until the interpreter clears its modules."""

PATIENCE = 60.0


def await_that(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def main() -> None:
    path, how, state, end = sys.argv[1:]
    queue = bandog.connect(path)
    execute = handlers.execute_async if how == "coroutines" else handlers.execute
    options = {"processes": 2} if how == "processes" else {"concurrency": 4}
    events: list[bandog.Event] = []
    worker = bandog.Worker(queue, execute, grace=60, lease=3, on_events=events.extend, **options)
    HELD.extend([queue, worker])
    worker.start()
    if state == "busy":
        queue.ingest_many([bandog.Job(payload={"do": "nothing"}) for _ in range(20_000)])
        await_that(lambda: worker.stats().completed > 10)
    elif state in {"running", "hung"}:
        job_ids = [f"{state}-{number}" for number in range(2)]
        payload = {"do": "obey" if state == "running" else "hang", "seconds": PATIENCE}
        queue.ingest_many([bandog.Job(job_id=job_id, payload=payload) for job_id in job_ids])
        await_that(lambda: all(handlers.started(job_id) for job_id in job_ids))
    else:
        queue.enqueue({"do": "nothing"}, job_id="first")
        await_that(lambda: queue.read("first").state == "settled")
    if end == "stopping":
        threading.Thread(target=worker.stop, daemon=True).start()
        await_that(lambda: worker.stats().state != "running")
    print("ready", flush=True)
    if end == "exit":
        sys.exit(3)
    if end == "error":
        message = "nobody catches this"
        raise LookupError(message)


if __name__ == "__main__":
    main()
