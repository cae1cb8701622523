"""The sides of the PostgreSQL benches, and how one of them is measured: fresh processes, on a fresh database.

Every side is a script with the same verbs (``rivals/serving.py`` says which), in its own environment. The time of a
drain is taken here, the same way for all: from telling the processes to start their workers until all jobs have been
executed and none is left that is not recorded as done.
"""

from __future__ import annotations

import argparse
import json
import os
import queue as queues
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measuring import describe, warn_of_debug_build
from postgres_server import create_database, fresh_database, settings, settle_down
from rivals import installing

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
PATIENCE = 600.0
RIVALS = ("graphile", "pgqueuer", "awa", "procrastinate")
SETTINGS: dict[str, list[Any]] = {
    "graphile": [10, 24, 100],  # concurrentJobs
    "pgqueuer": [10, 100, 1000],  # batch_size
    "awa": [[100, 1], [1000, 1], [1000, 4]],  # workers, claimers
    "procrastinate": [1, 10, 50],  # concurrency
}
"""What is tried for each rival; their scripts say what it means. The best one counts."""


@dataclass(frozen=True)
class Side:
    """A command that takes URL, verb and options, and the options that make it this side."""

    name: str
    command: list[str]
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def having(self, **options: Any) -> Side:
        return Side(self.name, self.command, {**self.options, **options})

    def ask(self, url: str, verb: str, **options: Any) -> Any:
        """Run a verb to its end; the last line is the answer."""
        arguments = [*self.command, url, verb, json.dumps({**self.options, **options})]
        done = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE)  # noqa: S603
        return json.loads(done.stdout.splitlines()[-1])


def ours(name: str, **options: Any) -> Side:
    return Side(name, [sys.executable, str(HERE / "postgres_ours.py")], {"side": name, "is_async": False, **options})


def rivals(folder: Path, names: list[str]) -> dict[str, Side]:
    """The named rivals, installed."""
    sides: dict[str, Side] = {}
    for name in names:
        if name == "graphile":
            if found := installing.node(folder):
                sides[name] = Side(name, list(found))
        else:
            sides[name] = Side(name, [installing.python(folder), str(HERE / "rivals" / f"{name}_rival.py")])
    return sides


TEMPLATES: dict[str, str] = {}
"""By name, the databases in which a side has made its tables: some of them take many seconds for that."""


@contextmanager
def database_of(server: str, side: Side) -> Iterator[str]:
    """The URL of a database with the side's tables, and nothing in them."""
    name = "bandog" if side.name == "raw" else side.name
    if name not in TEMPLATES:
        TEMPLATES[name], url = create_database(server)
        side.ask(url, "prepare")
    with fresh_database(server, TEMPLATES[name]) as url:
        yield url


class Process:
    """One worker process of a drain, and what it says."""

    def __init__(self, side: Side, url: str, job: str) -> None:
        arguments = [*side.command, url, "drain", json.dumps({**side.options, "job": job})]
        self.process = subprocess.Popen(  # noqa: S603 - a side's script
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.said: queues.SimpleQueue[dict[str, int]] = queues.SimpleQueue()
        self.done = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.put(json.loads(line))
        self.said.put({"ended": True})

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, int]:
        """The next thing that it says. How many jobs it has done is remembered."""
        said = self.said.get(timeout=PATIENCE)
        assert "ended" not in said, "a side's process ended early"
        self.done = said.get("done", self.done)
        return said

    def pending(self) -> int:
        """How many jobs are not yet recorded as done."""
        self.tell("pending")
        while "pending" not in (said := self.hear()):
            pass
        return said["pending"]

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def drain(server: str, side: Side, jobs: int, *, processes: int = 1, job: str = "nothing") -> float:
    """Jobs per second of so many worker processes on as many preloaded jobs."""
    with database_of(server, side) as url, ExitStack() as stack:
        side.ask(url, "preload", jobs=jobs)
        settle_down(url)
        workers = [Process(side, url, job) for _ in range(processes)]
        for worker in workers:
            stack.callback(worker.end)
        for worker in workers:
            worker.hear()  # that it is ready
        start = time.perf_counter()
        for worker in workers:
            worker.tell("go")
        while sum(worker.done for worker in workers) < jobs:
            for worker in workers:
                while not worker.said.empty():
                    worker.hear()
            time.sleep(0.002)
            assert time.perf_counter() - start < PATIENCE, f"{side.name} is stuck"
        while workers[0].pending():
            time.sleep(0.002)
        return jobs / (time.perf_counter() - start)


def median(values: list[float]) -> float:
    return statistics.median(values)


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that all PostgreSQL benches have."""
    found = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--url", help="a server whose user may create databases; default one of the bench's own")
    found.add_argument("--rounds", type=int, default=3)
    found.add_argument("--quick", action="store_true", help="one round of few jobs: whether it runs, no figures")
    found.add_argument(
        "--rivals-venv",
        type=Path,
        default=Path(tempfile.gettempdir()) / "bandog-bench-rivals",
        help="the folder that rivals are installed into, on demand; default in the temporary folder",
    )
    found.add_argument("--rival", action="append", choices=[*RIVALS, "none"], help="only this one; may be repeated")
    return found


def chosen_rivals(options: argparse.Namespace) -> dict[str, Side]:
    names = options.rival or list(RIVALS)
    return rivals(options.rivals_venv, [name for name in names if name != "none"])


def introduce(server: str, text: str) -> None:
    """The head of each report: machine, server, load."""
    warn_of_debug_build()
    print(f"{describe(None)}\n{settings(server)}\n{text}\n", flush=True)


def load() -> str:
    return f"load at the end {os.getloadavg()[0]:.1f}"
