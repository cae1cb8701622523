"""What slows queues on PostgreSQL down as they stand: dead rows that a held snapshot keeps, and many waiting jobs.

Both go through the pull API, in batches of 100: ingest, claim, settle. The raw loop stands beside it.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
from measuring import PAYLOAD
from postgres_server import fresh_database, settle_down
from raw_postgres import RawConnection

import bandog

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH = 100


class Pull:
    """bandog's three steps, through the public API."""

    def __init__(self, url: str) -> None:
        self.queue = bandog.connect(url)

    def close(self) -> None:
        self.queue.close()

    def ingest(self, size: int) -> None:
        self.queue.ingest_many(bandog.Job(payload=PAYLOAD) for _ in range(size))

    def claim(self, limit: int) -> list[Any]:
        return self.queue.claim("bench", queues="default", limit=limit)

    def settle(self, claims: list[Any]) -> None:
        done = bandog.Completed()
        self.queue.settle_many([(claim, done) for claim in claims])


SIDES: dict[str, Callable[[str], Any]] = {"bandog": Pull, "raw": RawConnection}


def measure_snapshot(server: str, seconds: int) -> None:
    """Jobs per second while another connection holds a snapshot: the first minute beside the last."""
    part = min(60, seconds / 3)
    print(f"A snapshot is held for {seconds} s; ingest + claim + settle in batches of {BATCH}, jobs per second.\n")
    print(f"| side | first {part:g} s | last {part:g} s | last / first | each tenth of the time |")
    print("| --- | --- | --- | --- | --- |")
    for name, make in SIDES.items():
        with fresh_database(server) as url:
            bandog.migrate(url)
            with closing(make(url)) as side, closing(psycopg.connect(url)) as holder:
                step(side)  # connections, statements
                holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                holder.execute("SELECT count(*) FROM bandog.job")  # from here on vacuum removes nothing
                ends = ends_of_steps(side, seconds)
                holder.rollback()
        first, last = rate(ends, 0, part), rate(ends, seconds - part, seconds)
        tenth = seconds / 10
        cells = " ".join(f"{rate(ends, tenth * number, tenth * (number + 1)):,.0f}" for number in range(10))
        print(f"| {name} | {first:,.0f} | {last:,.0f} | {last / first:.2f} | {cells} |", flush=True)


def rate(ends: list[float], since: float, until: float) -> float:
    """Jobs per second of the steps that ended in that time."""
    return BATCH * sum(since < end <= until for end in ends) / (until - since)


def step(side: Any) -> None:
    side.ingest(BATCH)
    side.settle(side.claim(BATCH))


def ends_of_steps(side: Any, seconds: float) -> list[float]:
    """When each step ended, in seconds since the start."""
    ends: list[float] = []
    start = time.perf_counter()
    while not ends or ends[-1] < seconds:
        step(side)
        ends.append(time.perf_counter() - start)
    return ends


def measure_backlog(server: str, *, quick: bool) -> None:
    """Claim and settle with so many jobs waiting: as many are ingested as are settled, between the measured calls."""
    backlogs = (1_000, 20_000 if quick else 1_000_000)
    steps = 20 if quick else 1_000
    print(f"Claim + settle in batches of {BATCH}, {BATCH * steps:,} jobs, while so many others wait.\n")
    print(f"| side | {backlogs[0]:,} waiting | {backlogs[1]:,} waiting | ratio |\n| --- | --- | --- | --- |")
    for name, make in SIDES.items():
        rates = [claim_and_settle(server, make, backlog, steps) for backlog in backlogs]
        print(f"| {name} | {rates[0]:,.0f} | {rates[1]:,.0f} | {rates[1] / rates[0]:.2f} |", flush=True)


def claim_and_settle(server: str, make: Callable[[str], Any], backlog: int, steps: int) -> float:
    with fresh_database(server) as url:
        bandog.migrate(url)
        with closing(make(url)) as side:
            for _ in range(0, backlog, 1000):
                side.ingest(1000)
            settle_down(url)
            spent = 0.0
            for _ in range(steps):
                side.ingest(BATCH)
                start = time.perf_counter()
                side.settle(side.claim(BATCH))
                spent += time.perf_counter() - start
    return BATCH * steps / spent
