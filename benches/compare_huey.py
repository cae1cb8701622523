"""The same work on Huey's SQLite storage and on bandog, at equal durability: ``python benches/compare_huey.py``.

No-op jobs: enqueued one by one, then drained in this process. Huey's consumer is taken down to what it does per task,
``dequeue`` and ``execute``, without its polling. bandog is drained by ``Watchdog``, one job per tick, and in batches
by claims of many. Huey delivers at most once: a task leaves the file, in one commit, before it runs. bandog commits
its claim and its outcome. Rounds of all sides alternate and the median counts.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Protocol

from huey import SqliteHuey

import bandog

PAYLOAD = {"to": "ada@example.org", "n": 1}


class Side(Protocol):
    """One queue on one file."""

    def enqueue(self, count: int) -> None: ...
    def drain(self, count: int) -> None: ...
    def close(self) -> None: ...


class Huey:
    def __init__(self, path: Path, durable: bool) -> None:
        # Huey's `fsync=True` is synchronous=FULL, `False` is OFF; WAL in both.
        self.huey = SqliteHuey("bench", filename=str(path), fsync=durable, results=False, utc=True)
        self.task = self.huey.task()(lambda payload: None)  # noqa: ARG005 - a task without work

    def enqueue(self, count: int) -> None:
        for _ in range(count):
            self.task(PAYLOAD)

    def drain(self, count: int) -> None:
        for _ in range(count):
            self.huey.execute(self.huey.dequeue())
        assert self.huey.dequeue() is None

    def close(self) -> None:
        self.huey.storage.close()


class Ticks:
    """bandog, one job per tick."""

    def __init__(self, path: Path, durable: bool) -> None:
        # bandog has no OFF; NORMAL, which syncs at checkpoints, is the nearest below FULL.
        self.queue = bandog.connect(path, synchronous="full" if durable else "normal")

    def enqueue(self, count: int) -> None:
        for _ in range(count):
            self.queue.enqueue(PAYLOAD)

    def drain(self, count: int) -> None:
        with bandog.Watchdog(self.queue, lambda job, cancel: None) as watchdog:  # noqa: ARG005
            for _ in range(count):
                assert watchdog.tick().kind == "settled"

    def close(self) -> None:
        self.queue.close()


class Batches(Ticks):
    """bandog, claimed and settled 100 at a time."""

    BATCH = 100

    def drain(self, count: int) -> None:
        left = count
        while left:
            claims = self.queue.claim("bench", limit=self.BATCH)
            assert claims
            for claim in claims:
                _ = claim.payload
            self.queue.settle_many([(claim, bandog.Completed()) for claim in claims])
            left -= len(claims)


SIDES = {"huey": Huey, "bandog, ticks": Ticks, f"bandog, batch {Batches.BATCH}": Batches}


def measure(side: Side, count: int) -> tuple[float, float]:
    start = time.perf_counter()
    side.enqueue(count)
    middle = time.perf_counter()
    side.drain(count)
    end = time.perf_counter()
    return count / (middle - start), count / (end - middle)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--folder", default=None, help="where the files go; default the temporary folder")
    options = parser.parse_args()
    # Huey logs each task; at this level it formats nothing.
    logging.getLogger("huey").setLevel(logging.WARNING)
    if bandog._core.DEBUG_BUILD:  # noqa: SLF001
        print("this is a debug build; its figures mean nothing", file=sys.stderr)
    print(f"{options.jobs} no-op jobs, median of {options.rounds} rounds, load {os.getloadavg()[0]:.1f}")
    print(f"{'durability':22} {'queue':18} {'enqueue/s':>10} {'drain/s':>10} {'ratio':>13}")
    for durable, name in ((True, "FULL"), (False, "huey OFF, bandog NORMAL")):
        figures: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
        for _ in range(options.rounds):
            for label, make in SIDES.items():
                with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                    side: Any = make(Path(folder) / "jobs.sqlite", durable)
                    figures[label].append(measure(side, options.jobs))
                    side.close()
        medians = {
            label: [statistics.median(column) for column in zip(*rows, strict=True)] for label, rows in figures.items()
        }
        for label, (enqueued, drained) in medians.items():
            ratio = f"{enqueued / medians['huey'][0]:.2f} / {drained / medians['huey'][1]:.2f}"
            print(f"{name:22} {label:18} {enqueued:10,.0f} {drained:10,.0f} {ratio:>13}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
