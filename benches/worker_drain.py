"""One worker process drains preloaded jobs, beside other ways to do it: ``python benches/worker_drain.py``.

Everything with ``synchronous=FULL``. Each side of each round is a process of its own, which stores its jobs and then is
timed from the start of its worker to the moment when every outcome is recorded. Rounds of all sides alternate and the
median counts. Beside the worker stand

- ``raw``: the raw SQL loop at the same batch (as many jobs as the worker has at once, or claims ahead): one commit for
  the claims, the jobs at once as the worker has them, one commit for the outcomes;
- ``plain``: ``sqlite3`` as a small queue of one's own uses it: claim one, run it, settle it;
- ``huey``: ``dequeue`` and ``execute`` of Huey's SQLite storage, without its polling. One commit a task, at most once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compare_huey import Huey
from measuring import PAYLOAD, describe, in_a_fresh_process, warn_of_debug_build
from raw_sqlite import RawLoop

import bandog

SLEEP = 0.001


@dataclass(frozen=True)
class Setting:
    """A worker, the jobs that it drains, and what stands beside it."""

    job: str
    worker: dict[str, Any]
    batch: int
    jobs: int
    beside: tuple[str, ...] = ("raw", "plain", "huey")
    is_async: bool = False
    jobs_of: dict[str, int] = field(default_factory=dict[str, int])
    """Fewer jobs for sides that are slower by far."""

    def count(self, side: str, share: float) -> int:
        """Jobs for a side; whole batches, so that equal batches are equal."""
        wanted = max(1, round(self.jobs_of.get(side, self.jobs) * share))
        return max(1, wanted // self.batch) * self.batch if side in {"bandog", "raw"} else wanted


SLOW = {"plain": 4_000, "huey": 4_000}
SETTINGS = {
    "threads 1": Setting("nothing", {"concurrency": 1}, 1, 4_000),
    "threads 16": Setting("nothing", {"concurrency": 16}, 16, 40_000, jobs_of=SLOW),
    "threads 64": Setting("nothing", {"concurrency": 64}, 64, 64_000, jobs_of=SLOW),
    "threads 256": Setting("nothing", {"concurrency": 256}, 256, 64_000, jobs_of=SLOW),
    "coroutines 1000": Setting("nothing", {"concurrency": 1000}, 1000, 200_000, is_async=True, jobs_of=SLOW),
    "threads 16, prefetch 1000": Setting("nothing", {"concurrency": 16, "prefetch": 1000}, 1000, 100_000, jobs_of=SLOW),
    "threads 64, 1 ms": Setting("sleep", {"concurrency": 64}, 64, 40_000, ("raw", "huey"), jobs_of=SLOW),
    "coroutines 1000, 1 ms": Setting("sleep", {"concurrency": 1000}, 1000, 60_000, ("raw",), is_async=True),
    "processes 2, computing": Setting("compute", {"processes": 2}, 2, 2_000, ("raw",)),
    "threads 2, computing": Setting("compute", {"concurrency": 2}, 2, 2_000, ("raw",)),
}


# The jobs. A payload is read, as any job would; importable, for child processes.


def nothing(job: Any, _cancel: Any) -> None:
    _ = job.payload


def sleep(job: Any, _cancel: Any) -> None:
    _ = job.payload
    time.sleep(SLEEP)


def compute(job: Any, _cancel: Any) -> None:
    _ = job.payload
    sum(number * number for number in range(50_000))


async def nothing_async(job: Any, _cancel: Any) -> None:
    _ = job.payload


async def sleep_async(job: Any, _cancel: Any) -> None:
    _ = job.payload
    await asyncio.sleep(SLEEP)


def nothing_for_huey(_payload: Any) -> None:
    pass


def sleep_for_huey(_payload: Any) -> None:
    time.sleep(SLEEP)


JOBS: dict[str, tuple[Any, Any]] = {
    "nothing": (nothing, nothing_async),
    "sleep": (sleep, sleep_async),
    "compute": (compute, None),
}


# The sides. Each stores `count` jobs, and returns the seconds that it took to have them done.


def drain_with_worker(setting: Setting, path: Path, count: int) -> float:
    execute: Any = JOBS[setting.job][setting.is_async]
    with bandog.connect(path) as queue:
        for start in range(0, count, 1000):
            queue.ingest_many(bandog.Job(payload=PAYLOAD) for _ in range(min(1000, count - start)))
        worker = bandog.Worker(queue, execute, queues="default", **setting.worker)
        start = time.perf_counter()
        worker.run(burst=True)
        seconds = time.perf_counter() - start
        assert worker.stats().completed == count, worker.stats()
    return seconds


class Claimed:
    """What the raw loop hands to an executor."""

    def __init__(self, row: tuple[Any, ...]) -> None:
        self.payload = row[3]


def drain_raw(setting: Setting, path: Path, count: int, batch: int) -> float:
    loop = RawLoop(path, "FULL")
    for start in range(0, count, 1000):
        loop.ingest([PAYLOAD] * min(1000, count - start))
    with ThreadPoolExecutor(batch) as pool, asyncio.Runner() as runner:
        if setting.job == "sleep" and not setting.is_async:
            list(pool.map(time.sleep, [SLEEP] * batch))  # its threads are there, as the worker's
        start = time.perf_counter()
        done = 0
        while claims := loop.claim(batch):
            run_at_once(setting, [Claimed(row) for row in claims], pool, runner)
            loop.settle(claims)
            done += len(claims)
        seconds = time.perf_counter() - start
    loop.close()
    assert done == count
    return seconds


def run_at_once(setting: Setting, claims: list[Claimed], pool: ThreadPoolExecutor, runner: asyncio.Runner) -> None:
    execute, execute_async = JOBS[setting.job]
    if setting.is_async:
        assert execute_async is not None
        runner.run(_gathered(execute_async, claims))
    elif setting.job == "sleep":
        list(pool.map(execute, claims, claims))
    else:
        for claim in claims:
            execute(claim, None)


async def _gathered(execute: Any, claims: list[Claimed]) -> None:
    await asyncio.gather(*(execute(claim, None) for claim in claims))


def drain_with_huey(setting: Setting, path: Path, count: int) -> float:
    side: Any = Huey(path, durable=True)
    side.task = side.huey.task(name="work")(sleep_for_huey if setting.job == "sleep" else nothing_for_huey)
    side.enqueue(count)
    threads = setting.worker["concurrency"] if setting.job == "sleep" else 1
    done: list[int] = []

    def body() -> None:
        number = 0
        while (task := side.huey.dequeue()) is not None:
            side.huey.execute(task)
            number += 1
        done.append(number)

    bodies = [threading.Thread(target=body) for _ in range(threads)]
    start = time.perf_counter()
    for thread in bodies:
        thread.start()
    for thread in bodies:
        thread.join()
    seconds = time.perf_counter() - start
    side.close()
    assert sum(done) == count
    return seconds


def drain(name: str, side: str, count: int, folder: str | None) -> float:
    setting = SETTINGS[name]
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        path = Path(fresh) / "jobs.sqlite"
        if side == "bandog":
            return drain_with_worker(setting, path, count)
        if side == "huey":
            return drain_with_huey(setting, path, count)
        return drain_raw(setting, path, count, 1 if side == "plain" else setting.batch)


def measure(name: str, rounds: int, share: float, folder: str | None) -> dict[str, float]:
    """Jobs per second of every side, the median of the rounds."""
    setting = SETTINGS[name]
    rates: dict[str, list[float]] = {side: [] for side in ("bandog", *setting.beside)}
    for _ in range(rounds):
        for side, found in rates.items():
            count = setting.count(side, share)
            arguments = ["--side", side, "--setting", name, "--jobs", count]
            seconds = in_a_fresh_process(__file__, *arguments, *(["--folder", folder] if folder else []))
            found.append(count / seconds)
    return {side: statistics.median(found) for side, found in rates.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round of few jobs: whether it runs, no figures")
    parser.add_argument("--setting", action="append", choices=SETTINGS, help="only this one; may be repeated")
    parser.add_argument("--folder", default=None, help="where the files go; default the temporary folder")
    parser.add_argument("--side", help=argparse.SUPPRESS)  # of this script's own processes
    parser.add_argument("--jobs", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    logging.getLogger("huey").setLevel(logging.WARNING)
    if options.side:
        print(json.dumps(drain(options.setting[0], options.side, options.jobs, options.folder)))
        return 0
    rounds, share = (1, 0.02) if options.quick else (options.rounds, 1.0)
    warn_of_debug_build()
    print(describe(options.folder))
    print(f"synchronous=FULL, median of {rounds} rounds, jobs per second\n")
    print("| worker | jobs | batch | bandog | raw | ratio | plain | ratio | huey | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in options.setting or SETTINGS:
        setting = SETTINGS[name]
        rates = measure(name, rounds, share, options.folder)
        ours = rates.pop("bandog")
        cells = [name, f"{setting.count('bandog', share):,}", str(setting.batch), f"{ours:,.0f}"]
        for side in ("raw", "plain", "huey"):
            cells += [f"{rates[side]:,.0f}", f"{ours / rates[side]:.2f}"] if side in rates else ["", ""]
        print(f"| {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
