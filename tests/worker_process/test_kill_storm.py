"""SIGKILL at random moments of workers of every kind: each job gets one outcome, and nothing is lost.

`BANDOG_STORM` scales it: the number of jobs (2,000) and of kills (30).
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processes import PATIENCE, assert_sound, eventually, select

import bandog

if TYPE_CHECKING:
    from journal import Journal, Running

SCALE = float(os.environ.get("BANDOG_STORM", "1"))
SEED = os.environ.get("BANDOG_CRASH_SEED") or os.urandom(4).hex()
JOBS = int(2_000 * SCALE)
KILLS = int(30 * SCALE)
LEASE = 0.5
KINDS = [
    ("threads", {"concurrency": 4, "prefetch": 0}),
    ("threads", {"concurrency": 2, "prefetch": 50}),
    ("coroutines", {"concurrency": 20, "prefetch": 0}),
    ("coroutines", {"concurrency": 2, "prefetch": 50}),
    ("processes", {"concurrency": 2, "prefetch": 0}),
    ("processes", {"concurrency": 1, "prefetch": 50}),
]
AT_ONCE = 4


def is_alive(pid: int) -> bool:
    """Whether a process is there; one that only waits to be reaped is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def jobs(first: int, count: int, chance: random.Random) -> list[bandog.Job]:
    return [
        bandog.Job(
            job_id=f"job-{number}",
            max_attempts=1_000,
            payload={"do": "effect", "seconds": chance.choice([0, 0, 0.001, 0.05])},
        )
        for number in range(first, first + count)
    ]


def storm(run_worker: Callable[..., Running], path: Path, queue: bandog.Queue) -> int:
    """Kill workers and start others, while jobs come; how many came in all."""
    chance = random.Random(SEED)
    admitted = 0
    workers: list[Running] = []
    for turn in range(AT_ONCE - 1 + KILLS):
        how, options = KINDS[turn % len(KINDS)]
        workers.append(run_worker(path, how, wait=False, lease=LEASE, poll=0.2, **options))
        if len(workers) < AT_ONCE:
            continue
        queue.ingest_many(jobs(admitted, JOBS // KILLS, chance))
        admitted += JOBS // KILLS
        victim = workers.pop(chance.randrange(len(workers)))
        # Mostly at work; now and then while it starts.
        if chance.random() < 0.8:
            assert victim.child.hear() == "running"
        victim.wait_until(time.monotonic() + chance.random() ** 2 * 0.5)
        assert victim.child.process.poll() is None, f"it died by itself: {victim.child.finish()}"
        victim.kill()
    # The last ones drain it, and one that nobody kills.
    workers.append(run_worker(path, "threads", lease=LEASE, poll=0.2))
    eventually(lambda: not queue.has_pending_work(), "all jobs get their outcome", 2 * PATIENCE)
    for worker in workers:
        worker.tell(signal.SIGTERM)
    for worker in workers:
        assert worker.end(within=30) == 0
        assert "Traceback" not in worker.log
    return admitted


def test_kills_lose_nothing_and_settle_nothing_twice(
    tmp_path: Path, run_worker: Callable[..., Running], journal: Journal
) -> None:
    print(f"BANDOG_CRASH_SEED={SEED}")
    path = tmp_path / "jobs.sqlite"
    with bandog.connect(path, busy_timeout=PATIENCE) as queue:
        admitted = storm(run_worker, path, queue)
        effects = Counter((note["job"], note["attempt"]) for note in journal.notes("effect"))
        per_job: Counter[str] = Counter()
        for (job, _), times in effects.items():
            assert times == 1, "one claim was carried out twice"
            per_job[job] += 1
        recovered = 0
        for number in range(admitted):
            record = queue.read(f"job-{number}")
            assert record.outcome == bandog.Completed({"attempt": record.attempts})
            assert (record.job_id, record.attempts) in effects, "no success without its work"
            assert 1 <= per_job[record.job_id] <= record.attempts
            assert record.attempts == 1 + record.recoveries + record.given_back
            recovered += record.recoveries
    assert select(path, "SELECT count(*) FROM bandog_outcome") == [(admitted,)]
    assert_sound(path)
    print(f"{KILLS} kills, {recovered} recoveries, {sum(effects.values())} effects of {admitted} jobs")
    # The run must have been what it claims to be.
    assert recovered > KILLS // 2
    # Nobody is left of those who ran jobs.
    pids = {note["pid"] for note in journal.notes("effect")}
    eventually(lambda: not [pid for pid in pids if is_alive(pid)], "children of killed workers end")


def test_a_killed_worker_takes_its_children_with_it(
    tmp_path: Path, run_worker: Callable[..., Running], journal: Journal
) -> None:
    """Those that run a job too, whatever it does."""
    path = tmp_path / "jobs.sqlite"
    busy: dict[str, dict[str, Any]] = {
        "hang": {},
        "obey": {"seconds": PATIENCE},
        "spin": {"seconds": PATIENCE},
        "long_call": {"seconds": PATIENCE, "digits": 1_500_000},
    }
    with bandog.connect(path) as queue:
        queue.ingest_many([bandog.Job(job_id=do, payload={"do": do, **more}) for do, more in busy.items()])
    # One more than there are jobs, so that one child is idle.
    worker = run_worker(path, "processes", concurrency=len(busy) + 1)
    journal.await_start(*busy)
    children = {note["job"]: note["pid"] for note in journal.notes("start")}
    everybody = worker.children()
    assert everybody > set(children.values())
    worker.kill()
    eventually(lambda: not [pid for pid in everybody if is_alive(pid)], f"{json.dumps(children)} end", 5)
