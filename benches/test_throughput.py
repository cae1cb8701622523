"""The whole queue through its public API, with pytest-benchmark: ``pytest benches/test_throughput.py``.

Each figure is the time of one round of so many jobs; ``jobs_per_second`` stands beside it in the columns of extra
information and in ``--benchmark-json``. All on a file with ``synchronous=FULL`` unless the name says otherwise.
"""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import bandog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytest.importorskip("pytest_benchmark")

PAYLOAD = {"to": "ada@example.org", "n": 1}
ROUNDS = int(os.environ.get("BANDOG_BENCH_ROUNDS", "7"))


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[bandog.Queue]:
    with bandog.connect(tmp_path / "jobs.sqlite") as opened:
        yield opened


def measure(
    benchmark: Any, jobs: int, target: Callable[..., object], setup: Callable[[], object] | None = None
) -> None:
    benchmark.pedantic(target, setup=setup, rounds=ROUNDS, warmup_rounds=1)
    if benchmark.stats is not None:
        benchmark.extra_info["jobs_per_second"] = round(jobs / benchmark.stats.stats.median)
    benchmark.extra_info["load"] = os.getloadavg()[0]
    benchmark.extra_info["debug_build"] = bandog._core.DEBUG_BUILD  # noqa: SLF001


def some(count: int) -> list[bandog.Job]:
    return [bandog.Job(payload=PAYLOAD) for _ in range(count)]


def test_enqueue_one_by_one(benchmark: Any, queue: bandog.Queue) -> None:
    def enqueue() -> None:
        for _ in range(1000):
            queue.enqueue(PAYLOAD)

    measure(benchmark, 1000, enqueue)


def test_enqueue_from_16_threads(benchmark: Any, queue: bandog.Queue) -> None:
    def enqueue() -> None:
        for _ in range(500):
            queue.enqueue(PAYLOAD)

    def all_of_them() -> None:
        threads = [threading.Thread(target=enqueue) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    measure(benchmark, 16 * 500, all_of_them)


def test_enqueue_gathered_in_an_event_loop(benchmark: Any, tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        queue = runner.run(bandog.connect_async(tmp_path / "jobs.sqlite"))

        async def enqueue() -> None:
            await asyncio.gather(*(queue.enqueue(PAYLOAD) for _ in range(1000)))

        measure(benchmark, 1000, lambda: runner.run(enqueue()))
        runner.run(queue.close())


def test_ingest_many_1000(benchmark: Any, queue: bandog.Queue) -> None:
    measure(benchmark, 10_000, lambda: [queue.ingest_many(some(1000)) for _ in range(10)])


@pytest.mark.parametrize(("batch", "jobs"), [(1, 1000), (100, 10_000), (1000, 20_000)])
def test_claim_and_settle(benchmark: Any, queue: bandog.Queue, batch: int, jobs: int) -> None:
    done = bandog.Completed()

    def claim_and_settle() -> None:
        for _ in range(jobs // batch):
            claims = queue.claim("bench", queues="default", limit=batch)
            for claim in claims:
                _ = claim.payload
            queue.settle_many([(claim, done) for claim in claims])

    measure(benchmark, jobs, claim_and_settle, setup=lambda: queue.ingest_many(some(jobs)) and None)


def test_watchdog_ticks(benchmark: Any, queue: bandog.Queue) -> None:
    with bandog.Watchdog(queue, lambda job, cancel: None) as watchdog:  # noqa: ARG005 - what an executor is given

        def tick() -> None:
            for _ in range(1000):
                assert watchdog.tick().kind == "settled"

        measure(benchmark, 1000, tick, setup=lambda: queue.ingest_many(some(1000)) and None)
