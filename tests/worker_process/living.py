"""A worker's long life in short: `living.py FILE HOW SCALE`. Says what grew in each phase, as JSON (C46).

HOW is `threads` or `coroutines`. Each phase is run through once at a tenth of its size, which is for what is kept on
purpose, and then measured.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import itertools
import json
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import bandog

HELD = 128 * 1024
"""Bytes of the large local of each executor that fails."""

AT_ONCE = 16
PATIENCE = 120.0

facts: dict[str, dict[str, float]] = {}
names = itertools.count()


class Large:
    """A local variable of an executor that fails."""

    def __init__(self) -> None:
        self.content = bytearray(HELD)


alive: weakref.WeakSet[Large] = weakref.WeakSet()


class Counting(logging.Handler):
    """Reads what is logged, as a formatter would, and keeps none of it."""

    def __init__(self) -> None:
        super().__init__()
        self.formatter = logging.Formatter()
        self.lines = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += self.format(record).count("\n") + 1


def fail(_job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    large = Large()
    alive.add(large)
    message = f"failed with {len(large.content)} bytes at hand"
    try:
        int(message)
    except ValueError as error:
        raise LookupError(message) from error


class Life:
    """A worker that runs through all phases, and who gives it work."""

    def __init__(self, path: Path, how: str) -> None:
        self.queue = bandog.connect(path, synchronous="normal")
        self.loop: asyncio.AbstractEventLoop | None = None
        execute = self.execute_async if how == "coroutines" else self.execute
        self.events = 0
        self.worker = bandog.Worker(self.queue, execute, concurrency=AT_ONCE, prefetch=50, on_events=self.count)
        self.worker.start()

    def count(self, events: list[bandog.Event]) -> None:
        self.events += len(events)

    def execute(self, job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> bandog.Completed | bandog.Cancelled:
        if job.payload == "fail":
            fail(job, cancel)
        if job.payload == "cancel":
            cancel.add_callback(lambda _reason: job.job_id)
            self.queue.cancel(job.job_id, "stop")
            cancel.wait(30)
            return bandog.Cancelled(cancel.detail)
        return bandog.Completed({"ok": True})

    async def execute_async(self, job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> bandog.Completed:
        self.loop = asyncio.get_running_loop()
        await asyncio.sleep(0)
        if job.payload == "fail":
            fail(job, cancel)
        if job.payload == "cancel":
            self.queue.cancel(job.job_id, "stop")
            await asyncio.sleep(30)
        return bandog.Completed({"ok": True})

    def run(self, payload: str, number: int) -> None:
        """So many jobs, to their ends."""
        job_ids = [str(next(names)) for _ in range(number)]
        self.queue.ingest_many([bandog.Job(job_id=job_id, payload=payload) for job_id in job_ids])
        deadline = time.monotonic() + PATIENCE
        while self.queue.has_pending_work() or self.worker.stats().running:
            assert time.monotonic() < deadline, self.worker.stats()
            time.sleep(0.005)

    def tasks(self) -> int:
        return 0 if self.loop is None else len(asyncio.all_tasks(self.loop))

    def measured(self) -> dict[str, int]:
        return {
            "resident": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
            "threads": len(os.listdir("/proc/self/task")),  # noqa: PTH208 - their number is all that is wanted
            "python_threads": threading.active_count(),
            "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208
            "tasks": self.tasks(),
            "held": self.queue.engine.held(),
            "large": len(alive),
        }


def phase(life: Life, name: str, body: Callable[[int], None], size: int) -> None:
    body(max(1, size // 10))
    gc.collect()
    before, began = life.measured(), time.monotonic()
    body(size)
    # Before the next collection of garbage: what hangs in a cycle would pile up.
    uncollected = len(alive)
    gc.collect()
    after = life.measured()
    facts[name] = {key: after[key] - before[key] for key in before}
    facts[name] |= {"seconds": time.monotonic() - began, "uncollected": uncollected}


def main() -> None:
    path, how, scale = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    faulthandler.dump_traceback_later(150 * max(1.0, scale), exit=True)
    counting = Counting()
    logging.getLogger().addHandler(counting)
    life = Life(path, how)
    phase(life, "completing", lambda size: life.run("complete", size), int(20_000 * scale))
    phase(life, "failing", lambda size: life.run("fail", size), int(5_000 * scale))
    phase(life, "cancelling", lambda size: life.run("cancel", size), int(2_000 * scale))
    life.worker.stop()
    stats = life.worker.stats()
    answer = {
        "phases": facts,
        "lines": counting.lines,
        "events": life.events,
        "completed": stats.completed,
        "failed": stats.failed,
        "cancelled": stats.cancelled,
    }
    life.queue.close()
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
