"""From enqueueing to the executor's start on PostgreSQL, idle worker: ``python benches/postgres_latency.py``.

The worker runs in the same process or in another one. Beside bandog stand the rivals, and what the machine allows:
the raw loop inserts a job and tells a thread through a queue, or another process by NOTIFY, which claims it. Each
side is alone on the server while it is measured, in fresh processes; the sides take turns in rounds, whose samples
are put together. Times are of one clock for all processes, since the call began, its commit included, and since it
returned (below zero: the executor was faster).
"""

from __future__ import annotations

import sys
from typing import Any

from measuring import percentile
from postgres_server import serve
from postgres_sides import Side, chosen_rivals, database_of, introduce, load, ours, parser

CHOSEN: dict[str, Any] = {"graphile": 10, "pgqueuer": 10, "awa": [100, 1], "procrastinate": 10}
"""An idle worker has all its slots free: the settings that the rivals' documentation starts from."""


def all_sides(rivals: dict[str, Side]) -> dict[str, Side]:
    sides = {
        "raw": ours("raw"),
        "bandog, threads": ours("bandog"),
        "bandog, coroutines": ours("bandog", is_async=True),
    }
    sides.update({name: side.having(setting=CHOSEN[name]) for name, side in rivals.items()})
    return {
        f"{name}, {place}": side.having(other=place == "other process")
        for place in ("same process", "other process")
        for name, side in sides.items()
    }


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--samples", type=int, default=200, help="of each side, per round")
    options.add_argument("--pause", type=float, default=0.03, help="seconds between two samples, about")
    given = options.parse_args()
    rounds, samples = (1, 10) if given.quick else (given.rounds, given.samples)
    with serve(given.url) as server:
        introduce(
            server, f"{rounds} rounds of {samples} samples, pauses of about {given.pause * 1000:g} ms, milliseconds"
        )
        sides = all_sides(chosen_rivals(given))
        found: dict[str, dict[str, list[float]]] = {name: {"since_call": [], "since_return": []} for name in sides}
        for _ in range(rounds):
            for name, side in sides.items():
                with database_of(server, side) as url:
                    answer = side.ask(url, "latency", samples=samples, pause=given.pause)
                for since, values in answer.items():
                    found[name][since] += values
        print("| from enqueueing to | since the call: p50 | p99 | since its return: p50 | p99 |")
        print("| --- | --- | --- | --- | --- |")
        for name, values in found.items():
            figures = [percentile(values[since], percent) for since in values for percent in (50, 99)]
            print(f"| {name} | {' | '.join(f'{figure:.2f}' for figure in figures)} |")
        print(f"\n{load()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
