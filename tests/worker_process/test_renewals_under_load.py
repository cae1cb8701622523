"""C03: a claim is renewed in time whatever the executor does to the interpreter, the loop or its connections.

Two worker processes share the file, so that a claim that lapses is taken at once by the other one. The file is in
memory where there is such a place: how long a disk takes that others write to is not what this is about.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from processes import PATIENCE, assert_sound, eventually

import bandog

if TYPE_CHECKING:
    from journal import Journal, Running

SWITCH = 1000.0
"""No thread is asked to give the interpreter lock up: whoever has it keeps it until it blocks or ends."""

HOLDERS = 8


def uptime() -> int:
    """The clock that the ends of leases are measured on, in microseconds."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


class Witness:
    """Reads from outside how long each claim has left, and when its lease was prolonged."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
        self.ends: dict[tuple[int, int], list[int]] = {}

    def look(self) -> None:
        before = uptime()
        rows = self.connection.execute("SELECT number, attempts, lease_until FROM bandog_lease").fetchall()
        for number, attempt, end in rows:
            assert end > before, f"claim {number} lapsed {(before - end) / 1e6:.3f} s ago"
            ends = self.ends.setdefault((number, attempt), [])
            if not ends or ends[-1] != end:
                ends.append(end)

    def assert_gaps(self, lease: float, claims: int) -> None:
        """Half a lease at most between two renewals of a claim. Its end is always one lease after the last of them."""
        assert len(self.ends) == claims
        for claim, ends in self.ends.items():
            gaps = [(after - before) / 1e6 for before, after in pairwise(ends)]
            print(f"claim {claim}, lease {lease} s: {len(gaps)} renewals, largest gap {max(gaps):.3f} s")
            # One is due after each quarter of a lease.
            assert len(gaps) >= 8
            assert min(gaps) > 0
            assert max(gaps) <= lease / 2


def jobs_of(how: str, do: str, lease: float, folder: Path) -> list[bandog.Job]:
    """What is to be run, each for four leases, in a queue of its own."""
    payload: dict[str, Any] = {"do": do, "seconds": 4 * lease, "queue": str(folder / "jobs.sqlite")}
    # 16 seconds of a core and three, as CPython needs quadratic time. Where it is faster the call is repeated, longer.
    payload["digits"] = 1_000_000 if lease > 1 else 400_000
    return [
        bandog.Job(
            job_id=f"{how}-{do}-{number}",
            queue=f"{how}-{do}",
            payload={**payload, "path": str(folder / f"{how}-{do}-{number}.sqlite")},
        )
        for number in range(HOLDERS if do == "hold" else 1)
    ]


CASES = [
    ("coroutines", "block"),
    ("coroutines", "spin"),
    ("coroutines", "long_call"),
    ("threads", "spin"),
    ("threads", "long_call"),
    ("threads", "hold"),
    ("processes", "long_call"),
]
LONGER = [
    [("coroutines", "long_call")],
    # Nobody needs the processor here, and all of it is waiting.
    [("threads", "hold"), ("coroutines", "block"), ("processes", "block")],
]


@pytest.fixture
def path() -> Iterator[Path]:
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own in it
    folder = tempfile.mkdtemp(prefix="bandog-", dir=memory if os.access(memory, os.W_OK) else None)
    yield Path(folder) / "jobs.sqlite"
    shutil.rmtree(folder)


def assert_renewed_in_time(
    path: Path, run_worker: Callable[..., Running], journal: Journal, cases: list[tuple[str, str]], lease: float
) -> None:
    with bandog.connect(path, busy_timeout=PATIENCE) as queue:
        witness = Witness(path)
        workers = []
        for how, do in cases:
            options = {"lease": lease, "concurrency": HOLDERS if how != "processes" else 1, "switch": SWITCH}
            names = [f"{how}-{do}-{letter}" for letter in "ab"]
            workers += [run_worker(path, how, worker=name, queues=[f"{how}-{do}"], **options) for name in names]
        jobs = [job for how, do in cases for job in jobs_of(how, do, lease, path.parent)]
        queue.ingest_many(jobs)
        with closing(witness.connection):

            def over() -> bool:
                witness.look()
                return len(journal.notes("end")) >= len(jobs)

            eventually(over, "the jobs end", 2 * PATIENCE)
            eventually(lambda: not queue.has_pending_work(), "they are recorded")
        for job in jobs:
            record = queue.read(str(job.job_id))
            assert (record.outcome, record.attempts, record.recoveries) == (bandog.Completed(), 1, 0)
        assert len(journal.notes("start")) == len(jobs)
        for worker in workers:
            worker.tell(signal.SIGTERM)
        assert {worker.end() for worker in workers} == {0}
    witness.assert_gaps(lease, len(jobs))
    assert_sound(path)


@pytest.mark.parametrize(("how", "do"), CASES)
def test_a_claim_is_renewed_in_time_under_the_shortest_lease(
    path: Path, run_worker: Callable[..., Running], journal: Journal, how: str, do: str
) -> None:
    assert_renewed_in_time(path, run_worker, journal, [(how, do)], 0.5)


@pytest.mark.parametrize("cases", LONGER)
def test_claims_are_renewed_in_time_under_a_lease_of_two_seconds(
    path: Path, run_worker: Callable[..., Running], journal: Journal, cases: list[tuple[str, str]]
) -> None:
    assert_renewed_in_time(path, run_worker, journal, cases, 2.0)


def test_many_idle_workers_do_not_keep_renewals_from_the_file(
    path: Path, run_worker: Callable[..., Running], journal: Journal
) -> None:
    """Each commit is noticed by all of them. Where jobs hog the processors, their looks must not be in the way."""
    cases = [("threads", "long_call"), ("coroutines", "long_call"), ("processes", "long_call")]
    for number in range(8):
        run_worker(path, "threads", worker=f"idle-{number}", queues=["nothing"], concurrency=2)
    assert_renewed_in_time(path, run_worker, journal, cases, 2.0)
