"""Workers drain preloaded jobs on PostgreSQL, beside a raw loop and rivals: ``python benches/postgres_drain.py``.

Tables of one run, on one server with ``synchronous_commit=on``:

- one worker process of bandog, in several settings, beside the raw loop at the same batch, in its best shape;
- one and four worker processes beside the rivals, each at its best setting of those that are tried first;
- jobs that sleep for 1 ms.

``--backlog`` and ``--snapshot`` are runs of their own (``postgres_standing.py``): many waiting jobs, and a snapshot
that is held open for ``--seconds``. Each side of each round is made of fresh processes on a fresh database, rounds of
all sides alternate, and medians count.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from postgres_server import serve
from postgres_sides import SETTINGS, Side, chosen_rivals, drain, introduce, load, median, ours, parser
from postgres_standing import measure_backlog, measure_snapshot
from raw_postgres import SHAPES

if TYPE_CHECKING:
    import argparse


@dataclass(frozen=True)
class Setting:
    """A worker of bandog, and the batch of the raw loop beside it."""

    worker: dict[str, Any]
    batch: int
    jobs: int
    is_async: bool = False
    job: str = "nothing"

    def ours(self) -> Side:
        return ours("bandog", worker=self.worker, is_async=self.is_async)

    def raw(self, shape: str) -> Side:
        return ours("raw", batch=self.batch, is_async=self.is_async, shape=shape)


WORKERS = {
    "threads 1": Setting({"concurrency": 1}, 1, 2_000),
    "threads 16": Setting({"concurrency": 16}, 16, 20_000),
    "threads 64": Setting({"concurrency": 64}, 64, 40_000),
    "threads 1, prefetch 1": Setting({"concurrency": 1, "prefetch": 1}, 1, 2_000),
    "threads 16, prefetch 16": Setting({"concurrency": 16, "prefetch": 16}, 16, 20_000),
    "threads 64, prefetch 64": Setting({"concurrency": 64, "prefetch": 64}, 64, 40_000),
    "coroutines 1000": Setting({"concurrency": 1000}, 1000, 100_000, is_async=True),
    "threads 16, prefetch 1000": Setting({"concurrency": 16, "prefetch": 1000}, 1000, 150_000),
    "threads 16, prefetch 2000": Setting({"concurrency": 16, "prefetch": 2000}, 1000, 150_000),
    "threads 16, prefetch 4000": Setting({"concurrency": 16, "prefetch": 4000}, 4000, 200_000),
}
SLEEPERS = {
    "threads 64, 1 ms": Setting({"concurrency": 64}, 64, 30_000, job="sleep"),
    "coroutines 1000, 1 ms": Setting({"concurrency": 1000}, 1000, 60_000, is_async=True, job="sleep"),
}
BEST = "threads 16, prefetch 4000"
JOBS = {"graphile": 100_000, "pgqueuer": 30_000, "awa": 10_000, "procrastinate": 2_000}
"""For a rival: some seconds of its work."""


class Rounds:
    """Rates of sides, in rounds that alternate."""

    def __init__(self, server: str, rounds: int, share: float) -> None:
        self.server = server
        self.rounds = rounds
        self.share = share

    def count(self, jobs: int) -> int:
        return max(10, int(jobs * self.share))

    def measure(self, sides: dict[str, tuple[Side, int]], **options: Any) -> dict[str, float]:
        rates: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(self.rounds):
            for name, (side, jobs) in sides.items():
                rates[name].append(drain(self.server, side, self.count(jobs), **options))
        return {name: median(found) for name, found in rates.items()}


def against_raw(rounds: Rounds, settings: dict[str, Setting]) -> dict[str, float]:
    """bandog's rates, each beside the best shape of the raw loop."""
    print("| worker | jobs | batch | bandog | raw | its shape | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    found: dict[str, float] = {}
    for name, setting in settings.items():
        # Independent loops would have twice as many sleeping jobs at once.
        shapes = SHAPES if setting.job == "nothing" else ["overlap"]
        sides = {"bandog": (setting.ours(), setting.jobs)}
        sides.update({shape: (setting.raw(shape), setting.jobs) for shape in shapes})
        rates = rounds.measure(sides, job=setting.job)
        found[name] = rates.pop("bandog")
        shape = max(rates, key=lambda shape: rates[shape])
        cells = [name, f"{rounds.count(setting.jobs):,}", str(setting.batch), f"{found[name]:,.0f}"]
        print(f"| {' | '.join(cells)} | {rates[shape]:,.0f} | {shape} | {found[name] / rates[shape]:.2f} |", flush=True)
    return found


def best_settings(rounds: Rounds, rivals: dict[str, Side]) -> dict[str, Side]:
    """Each rival at the best of its settings, by one drain each."""
    print("\nTried for each rival, one drain each, jobs per second:\n\n| rival | setting | rate |\n| --- | --- | --- |")
    best: dict[str, Side] = {}
    for name, rival in rivals.items():
        rates: list[float] = []
        for setting in SETTINGS[name]:
            rates.append(drain(rounds.server, rival.having(setting=setting), rounds.count(JOBS[name])))
            print(f"| {name} | {setting} | {rates[-1]:,.0f} |", flush=True)
        best[name] = rival.having(setting=SETTINGS[name][rates.index(max(rates))])
    return best


def against_rivals(rounds: Rounds, bests: dict[str, Side], title: str, bandog: Setting, **options: Any) -> None:
    sides = {"bandog": (bandog.ours(), bandog.jobs)}
    sides.update({name: (side, JOBS[name]) for name, side in bests.items()})
    rates = rounds.measure(sides, **options)
    print(f"\n{title}\n\n| side | setting | jobs/s | bandog's ratio to it |\n| --- | --- | --- | --- |")
    for name, rate in rates.items():
        setting = bests[name].options["setting"] if name in bests else bandog.worker
        print(f"| {name} | {setting} | {rate:,.0f} | {rates['bandog'] / rate:.2f} |", flush=True)


def measure_tables(rounds: Rounds, given: argparse.Namespace) -> None:
    tables = given.table or ["raw", "rivals"]
    if "raw" in tables:
        wanted = given.setting or [*WORKERS, *SLEEPERS]
        against_raw(rounds, {name: value for name, value in {**WORKERS, **SLEEPERS}.items() if name in wanted})
    if "rivals" in tables and (rivals := chosen_rivals(given)):
        bests = best_settings(rounds, rivals)
        against_rivals(rounds, bests, "One worker process:", WORKERS[BEST])
        against_rivals(rounds, bests, "Four worker processes:", WORKERS[BEST], processes=4)
        sleeper = SLEEPERS["coroutines 1000, 1 ms"]
        bests = {name: rival.having(setting=SETTINGS[name][-1]) for name, rival in rivals.items()}  # the most at once
        against_rivals(rounds, bests, "One worker process, jobs that sleep 1 ms:", sleeper, job="sleep")


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--setting", action="append", choices=[*WORKERS, *SLEEPERS], help="only this one of bandog's")
    options.add_argument("--table", action="append", choices=["raw", "rivals"], help="only this; may be repeated")
    options.add_argument("--share", type=float, default=1.0, help="of the jobs; 0.1 for a first look")
    options.add_argument(
        "--backlog", action="store_true", help="1,000 against 1,000,000 waiting jobs, and nothing else"
    )
    options.add_argument("--snapshot", action="store_true", help="with a snapshot held, and nothing else")
    options.add_argument("--seconds", type=int, default=300, help="how long the snapshot is held")
    given = options.parse_args()
    rounds_of, share = (1, 0.02) if given.quick else (given.rounds, given.share)
    with serve(given.url) as server:
        introduce(server, f"median of {rounds_of} rounds, jobs per second")
        if given.backlog:
            measure_backlog(server, quick=given.quick)
        elif given.snapshot:
            measure_snapshot(server, 6 if given.quick else given.seconds)
        else:
            measure_tables(Rounds(server, rounds_of, share), given)
        print(f"\n{load()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
