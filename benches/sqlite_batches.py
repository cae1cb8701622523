"""bandog against the raw SQL loop, at equal batch and durability, in one run: ``python benches/sqlite_batches.py``.

Prints jobs per second and their ratio, for ingest and for claim + settle. Rounds of both sides alternate and the median
counts, so that a slow disk minute hits both.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raw_sqlite import RawLoop

import bandog

if TYPE_CHECKING:
    from collections.abc import Sequence


class Bandog:
    """The same three steps through the public API."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self.queue = bandog.connect(path, synchronous=synchronous)

    def close(self) -> None:
        self.queue.close()

    def ingest(self, payloads: Sequence[Any]) -> None:
        if len(payloads) == 1:
            self.queue.enqueue(payloads[0])
        else:
            self.queue.ingest_many([bandog.Job(payload=payload) for payload in payloads])

    def claim(self, limit: int) -> list[Any]:
        claims = self.queue.claim("bench", queues="default", limit=limit)
        for claim in claims:
            _ = claim.payload
        return claims

    def settle(self, claims: Sequence[Any]) -> None:
        done = bandog.Completed()
        self.queue.settle_many([(claim, done) for claim in claims])


def measure(side: Any, batch: int, jobs: int) -> tuple[float, float]:
    """Jobs per second of ingest, and of claim + settle."""
    payloads = [{"to": "ada@example.org", "n": number} for number in range(batch)]
    batches = jobs // batch
    start = time.perf_counter()
    for _ in range(batches):
        side.ingest(payloads)
    middle = time.perf_counter()
    for _ in range(batches):
        side.settle(side.claim(batch))
    end = time.perf_counter()
    return jobs / (middle - start), jobs / (end - middle)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="about how long one side takes per round")
    options = parser.parse_args()
    if bandog._core.DEBUG_BUILD:  # noqa: SLF001
        print("this is a debug build; its figures mean nothing", file=sys.stderr)
    print(f"bandog {bandog.__version__}, SQLite {bandog._core.sqlite_version()}, median of {options.rounds} rounds")  # noqa: SLF001
    print(f"{'synchronous':12} {'batch':>5}  {'step':13} {'raw/s':>9} {'bandog/s':>9} {'ratio':>6}")
    rates = {1: 4_000, 100: 60_000, 1000: 100_000}
    for synchronous in ("full", "normal"):
        for batch, rate in rates.items():
            jobs = max(batch, int(rate * options.seconds) // batch * batch)
            figures: dict[str, list[tuple[float, float]]] = {"raw": [], "bandog": []}
            for _ in range(options.rounds):
                for name, make in (("raw", RawLoop), ("bandog", Bandog)):
                    with tempfile.TemporaryDirectory() as folder:
                        side = make(Path(folder) / "jobs.sqlite", synchronous)
                        figures[name].append(measure(side, batch, jobs))
                        side.close()
            for step, column in (("ingest", 0), ("claim+settle", 1)):
                raw, ours = (statistics.median(row[column] for row in figures[name]) for name in ("raw", "bandog"))
                print(f"{synchronous:12} {batch:5}  {step:13} {raw:9,.0f} {ours:9,.0f} {ours / raw:6.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
