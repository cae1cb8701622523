"""A long life in short: `lifelong.py URL SCALE`. Says what grew in each phase, as JSON (C46).

Each phase is run through once at a tenth of its size, which is for what is kept on purpose, and then measured.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import itertools
import json
import os
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import bandog

HELD = 128 * 1024
"""Bytes of the large local of each executor that fails."""

facts: dict[str, dict[str, float]] = {}
names = itertools.count()


class Large:
    """A local variable of an executor that fails."""

    def __init__(self) -> None:
        self.content = bytearray(HELD)


alive: weakref.WeakSet[Large] = weakref.WeakSet()


def measured() -> dict[str, int]:
    return {
        "resident": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        "threads": len(os.listdir("/proc/self/task")),  # noqa: PTH208 - their number is all that is wanted
        "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208
        "large": len(alive),
    }


def phase(name: str, body: Callable[[int], None], size: int) -> None:
    body(max(1, size // 10))
    gc.collect()
    before, began = measured(), time.monotonic()
    body(size)
    # Before the next collection of garbage: what hangs in a cycle would pile up.
    uncollected = len(alive)
    gc.collect()
    after = measured()
    facts[name] = {key: after[key] - before[key] for key in before}
    facts[name] |= {"seconds": time.monotonic() - began, "uncollected": uncollected}


def drained(tick: Callable[[], bandog.Tick]) -> None:
    while tick().kind != "idle":
        pass


def fail(_job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    large = Large()
    alive.add(large)
    message = f"failed with {len(large.content)} bytes at hand"
    try:
        int(message)
    except ValueError as error:
        raise LookupError(message) from error


async def fail_async(job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> None:
    await asyncio.sleep(0)
    fail(job, cancel)


class Life:
    """A queue on each face, and the phases that they go through."""

    def __init__(self, url: str) -> None:
        self.queue = bandog.connect(url)
        self.loop = asyncio.new_event_loop()
        self.other = self.loop.run_until_complete(bandog.connect_async(url))

    def ingest(self, number: int, *, queue: str = "default") -> list[str]:
        job_ids = [f"{next(names)}" for _ in range(number)]
        self.queue.ingest_many([bandog.Job(job_id=job_id, payload={"id": job_id}, queue=queue) for job_id in job_ids])
        return job_ids

    def completing(self, number: int) -> None:
        self.ingest(number // 4)
        drained(bandog.Watchdog(self.queue, lambda _job, _cancel: None).tick)
        self.ingest(number - number // 4)
        while claims := self.queue.claim(limit=500):
            self.queue.settle_many([(claim, bandog.Completed({"ok": True})) for claim in claims])

    def failing(self, number: int) -> None:
        self.ingest(number // 2)
        drained(bandog.Watchdog(self.queue, fail).tick)
        self.ingest(number - number // 2)
        dog = bandog.AsyncWatchdog(self.other, fail_async)

        async def drain() -> None:
            while (await dog.tick()).kind != "idle":
                pass

        self.loop.run_until_complete(drain())

    def cancelling(self, number: int) -> None:
        for job_id in self.ingest(number // 2, queue="waiting"):
            self.queue.cancel(job_id, "no longer wanted")
        self.ingest(number - number // 2)

        def execute(job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> bandog.Cancelled:
            cancel.add_callback(lambda _reason: job.job_id)
            self.queue.cancel(job.job_id, "stop")
            cancel.wait(30)
            return bandog.Cancelled(cancel.detail)

        drained(bandog.Watchdog(self.queue, execute).tick)

    def abandoning(self, number: int) -> None:
        self.loop.run_until_complete(self.abandon(number))

    async def abandon(self, number: int) -> None:
        other = self.other
        for start in range(0, number, 50):
            calls = [other.enqueue({"n": n}) if n % 2 else other.claim(limit=2) for n in range(start, start + 50)]
            tasks = [asyncio.ensure_future(call) for call in calls]
            await asyncio.sleep(0.001 * (start % 3))
            for task in tasks:
                task.cancel()
            for answer in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(answer, list):
                    await other.settle_many([(claim, bandog.Release()) for claim in answer])
            with suppress(TimeoutError):
                await asyncio.wait_for(other.stats(), 0.0001)
        # Claims that nobody took are handed back, so that all that is left can be claimed.
        async with asyncio.timeout(30):
            while await other.has_pending_work():
                claims = await other.claim(limit=1000)
                await other.settle_many([(claim, bandog.Completed()) for claim in claims])
        assert len(asyncio.all_tasks()) == 1

    def close(self) -> int:
        """How many claims are still kept."""
        held = self.queue.engine.held() + self.other.engine.held()
        self.loop.run_until_complete(self.other.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self.queue.close()
        return held


def main() -> None:
    url, scale = sys.argv[1], float(sys.argv[2])
    faulthandler.dump_traceback_later(150 * max(1.0, scale), exit=True)
    life = Life(url)
    phase("completing", life.completing, int(20_000 * scale))
    phase("failing", life.failing, int(5_000 * scale))
    phase("cancelling", life.cancelling, int(2_000 * scale))
    phase("abandoning", life.abandoning, int(1_000 * scale))
    print(json.dumps({"held": life.close(), "phases": facts}), flush=True)


main()
