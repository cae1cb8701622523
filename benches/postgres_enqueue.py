"""Enqueueing on PostgreSQL, beside a raw insert and the rivals: ``python benches/postgres_enqueue.py``.

One by one, each waiting for its commit: one caller, and 16 at once (threads here, coroutines or promises there). In
bulk: 1,000 jobs per call, and all in one call. Each side of each round is a fresh process on a fresh database, rounds
of all sides alternate, and medians count.
"""

from __future__ import annotations

import sys
from typing import Any

from postgres_server import serve
from postgres_sides import Side, chosen_rivals, database_of, introduce, load, median, ours, parser

WAYS: dict[str, tuple[int, dict[str, Any]]] = {
    "one by one": (2_000, {}),
    "one by one, 16 at once": (16_000, {"at_once": 16}),
    "1,000 per call": (100_000, {"bulk": 1_000}),
    "all in one call": (100_000, {"bulk": 100_000}),
}


def rate(server: str, side: Side, jobs: int, options: dict[str, Any]) -> float:
    with database_of(server, side) as url:
        return jobs / side.ask(url, "enqueue", jobs=jobs, **options)["seconds"]


def measure(server: str, sides: dict[str, Side], way: str, rounds: int, share: float) -> dict[str, float]:
    jobs, options = WAYS[way]
    jobs = max(16, int(jobs * share) // 16 * 16)
    if "bulk" in options:
        options = {"bulk": min(options["bulk"], jobs)}
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            rates[name].append(rate(server, side, jobs, options))
    return {name: median(found) for name, found in rates.items()}


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--way", action="append", choices=WAYS, help="only this one; may be repeated")
    given = options.parse_args()
    rounds, share = (1, 0.02) if given.quick else (given.rounds, 1.0)
    with serve(given.url) as server:
        introduce(server, f"median of {rounds} rounds, jobs per second, and bandog's ratio to the side")
        sides = {"bandog": ours("bandog"), "raw": ours("raw"), **chosen_rivals(given)}
        print(f"| way | {' | '.join(sides)} |\n| --- |{' --- |' * len(sides)}")
        for way in given.way or WAYS:
            rates = measure(server, sides, way, rounds, share)
            cells = [f"{found:,.0f} ({rates['bandog'] / found:.2f})" for found in rates.values()]
            print(f"| {way} | {' | '.join(cells)} |", flush=True)
        print(f"\n{load()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
