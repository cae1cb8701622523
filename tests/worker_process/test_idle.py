"""C12: an idle worker costs next to nothing, and misses no job: neither one that is due later nor one that comes then.

`BANDOG_IDLE` is how many seconds it idles before (3 by default; 60 is the figure of C12), `BANDOG_ENQUEUES` how many
jobs are timed to come as it falls asleep (500 by default; 10,000 is the figure).
"""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import pytest
from processes import PATIENCE, assert_sound, eventually

import bandog

if TYPE_CHECKING:
    from journal import Journal, Running
    from processes import Child

HOWS = ("threads", "coroutines", "processes")
IDLE = float(os.environ.get("BANDOG_IDLE", "3"))
ENQUEUES = int(os.environ.get("BANDOG_ENQUEUES", "500"))
FAR = 30.0
"""A poll that nobody wants to wait for."""

SOON = 5.0
"""Seconds within which a wake arrives, on a busy machine and a slow disk: it takes a millisecond.

A job that was missed waits for the poll.
"""


MOST_WAKE_UPS = 12
"""A second, of all threads of a worker and its children."""


def idle(seconds: float) -> None:
    over = time.monotonic() + seconds
    eventually(lambda: time.monotonic() >= over, "time passes", seconds + PATIENCE)


def used(pid: int) -> tuple[float, int]:
    """Seconds of a core that a process and its children have used so far, and how often they have run: threads that are
    there alone."""
    seconds, times = 0, 0
    for task in [*Path(f"/proc/{pid}/task").iterdir(), *children_of(pid)]:
        ran, _, slices = (task / "schedstat").read_text().split()
        seconds, times = seconds + int(ran), times + int(slices)
    return seconds / 1e9, times


def children_of(pid: int) -> list[Path]:
    pids = [child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    return [task for child in pids for task in Path(f"/proc/{child}/task").iterdir()]


def test_an_idle_worker_sleeps_and_starts_in_time(
    tmp_path: Path, run_worker: Callable[..., Running], journal: Journal
) -> None:
    """With the default poll while it idles.

    How often it wakes up is what it can do about: where others have the cores, the same few wake-ups take several times
    as long. On an idle machine they are 0.1 to 0.2 % of a core.
    """
    workers = {how: run_worker(tmp_path / f"{how}.sqlite", how) for how in HOWS}
    for how in HOWS:
        with bandog.connect(tmp_path / f"{how}.sqlite") as queue:
            # Everything has started once, and child processes are up.
            warm = [bandog.Job(payload={"do": "sleep", "seconds": 0.3}) for _ in range(2)]
            queue.ingest_many(warm)
            eventually(lambda queue=queue: not queue.has_pending_work(), "it is warm")
    rates: dict[str, float] = {}

    def idles() -> bool:
        before = {how: used(worker.pid) for how, worker in workers.items()}
        began = time.monotonic()
        idle(IDLE)
        lasted = time.monotonic() - began
        for how, worker in workers.items():
            seconds, times = (after - earlier for after, earlier in zip(used(worker.pid), before[how], strict=True))
            rates[how] = times / lasted
            print(f"{how}: {seconds / lasted:.3%} of a core, {rates[how]:.1f} wake-ups a second")
        return max(rates.values()) < MOST_WAKE_UPS

    # What was written last is watched for some seconds: a worker that is never seen idle fails.
    eventually(idles, f"they idle: {rates}", 5 * IDLE + PATIENCE)
    for how, worker in workers.items():
        with bandog.connect(tmp_path / f"{how}.sqlite") as queue:
            queue.enqueue({"do": "effect"}, job_id=f"{how}-later", delay=1)
            due = queue.read(f"{how}-later").available_at.timestamp()
        journal.await_start(f"{how}-later")
        (start,) = journal.notes("start", f"{how}-later")
        print(f"{how}: started {start['at'] - due:+.4f} s from when it was due")
        assert -0.005 <= start["at"] - due <= 0.3
        worker.tell(signal.SIGTERM)
        assert worker.end() == 0


class Here:
    """A worker in this process, which tells of each job as it starts, and never looks by itself."""

    def __init__(self, path: Path, how: str, poll: float = FAR) -> None:
        self.started: SimpleQueue[tuple[str, float]] = SimpleQueue()
        self.queue = bandog.connect(path)
        self.worker = bandog.Worker(
            self.queue, self.execute if how == "threads" else self.execute_async, poll=poll, grace=5, concurrency=4
        )

    def execute(self, job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
        self.started.put((job.job_id, time.time()))

    async def execute_async(self, job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
        self.started.put((job.job_id, time.time()))

    def await_start(self, job_id: str, patience: float) -> float:
        try:
            started, at = self.started.get(timeout=patience)
        except Empty:
            pytest.fail(f"job {job_id!r} did not start within {patience} s: {self.worker.stats()}")
        assert started == job_id
        return at


@contextmanager
def here(path: Path, how: str, **options: Any) -> Iterator[Here]:
    site = Here(path, how, **options)
    with site.queue, site.worker:
        site.queue.enqueue(job_id="first")
        site.await_start("first", PATIENCE)
        yield site


@pytest.mark.parametrize("how", ["threads", "coroutines"])
def test_a_job_that_is_due_later_starts_then(tmp_path: Path, start: Callable[..., Child], how: str) -> None:
    """Admitted here, and in another process, while the worker idles with nothing else to wake it."""
    path = tmp_path / "jobs.sqlite"
    producer = start("admitting_jobs.py", path)
    assert producer.hear() == "ready"
    with here(path, how) as site:
        idle(IDLE / 2)
        site.queue.enqueue(job_id="from-here", delay=1)
        assert producer.ask("from-there 1.5") == "admitted"
        dues = {name: site.queue.read(name).available_at for name in ("from-here", "from-there")}
        for name, due in dues.items():
            late = datetime.fromtimestamp(site.await_start(name, FAR / 2), UTC) - due
            print(f"{how}, {name}: {late.total_seconds():+.4f} s")
            assert -0.005 <= late.total_seconds() <= 0.3


@pytest.mark.parametrize("how", ["threads", "coroutines"])
def test_no_job_that_comes_as_a_worker_falls_asleep_is_missed(tmp_path: Path, how: str) -> None:
    path = tmp_path / "jobs.sqlite"
    chance = random.Random(7)
    waits = []
    with here(path, how) as site:
        for number in range(ENQUEUES):
            # From right after the last one started to well after its report was recorded.
            due = time.perf_counter() + chance.random() * 0.001
            while time.perf_counter() < due:
                pass
            asked_at = time.time()
            site.queue.enqueue(job_id=f"job-{number}")
            waits.append(site.await_start(f"job-{number}", FAR / 2) - asked_at)
    waits.sort()
    print(f"{how}: median {waits[len(waits) // 2] * 1e3:.2f} ms, longest {waits[-1] * 1e3:.1f} ms")
    assert waits[-1] < SOON
    assert_sound(path)


@pytest.mark.parametrize("how", ["threads", "coroutines"])
def test_no_job_of_another_process_is_missed(tmp_path: Path, start: Callable[..., Child], how: str) -> None:
    path = tmp_path / "jobs.sqlite"
    chance = random.Random(8)
    waits = []
    producer = start("admitting_jobs.py", path)
    assert producer.hear() == "ready"
    with here(path, how) as site:
        for number in range(ENQUEUES):
            due = time.perf_counter() + chance.random() * 0.001
            while time.perf_counter() < due:
                pass
            asked_at = time.time()
            producer.say(f"job-{number} 0")
            waits.append(site.await_start(f"job-{number}", FAR / 2) - asked_at)
            assert producer.hear() == "admitted"
    waits.sort()
    print(f"{how}: median {waits[len(waits) // 2] * 1e3:.2f} ms, longest {waits[-1] * 1e3:.1f} ms")
    assert waits[-1] < SOON
    assert_sound(path)


def test_a_worker_of_another_process_is_woken(
    tmp_path: Path, run_worker: Callable[..., Running], journal: Journal
) -> None:
    for how in HOWS:
        path = tmp_path / f"{how}.sqlite"
        worker = run_worker(path, how, poll=FAR)
        with bandog.connect(path) as queue:
            queue.enqueue({"do": "effect"}, job_id=f"{how}-first")
            eventually(lambda queue=queue: not queue.has_pending_work(), "it is warm")
            for number in range(20):
                asked_at = time.time()
                queue.enqueue({"do": "effect"}, job_id=f"{how}-{number}")
                journal.await_start(f"{how}-{number}")
                (start,) = journal.notes("start", f"{how}-{number}")
                assert start["at"] - asked_at < SOON
        worker.tell(signal.SIGTERM)
        assert worker.end() == 0


@contextmanager
def closing_worker(worker: bandog.Worker) -> Iterator[None]:
    try:
        yield
    finally:
        worker.stop()


@contextmanager
def no_descriptors_but(spare: int) -> Iterator[None]:
    """Let this process open so many files more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(int(name) for name in os.listdir("/proc/self/fd")) + 64, hard))  # noqa: PTH208
    taken = []
    try:
        while True:
            try:
                taken.append(os.open("/dev/null", os.O_RDONLY))
            except OSError as error:
                if error.errno != errno.EMFILE:
                    raise
                break
        for _ in range(spare):
            os.close(taken.pop())
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("how", ["threads", "coroutines"])
def test_polling_alone_is_enough(
    tmp_path: Path, start: Callable[..., Child], how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A system that lets nobody watch files, as when too many do."""
    path = tmp_path / "jobs.sqlite"
    producer = start("admitting_jobs.py", path)
    assert producer.hear() == "ready"
    site = Here(path, how, poll=0.2)
    with site.queue:
        # One for the file that says who runs the jobs, and on a loop those of the loop.
        with no_descriptors_but(1 if how == "threads" else 4):
            site.worker.start()
        eventually(lambda: "found by polling alone" in caplog.text, "the watch has failed")
        with closing_worker(site.worker):
            for number in range(10):
                asked_at = time.time()
                assert producer.ask(f"job-{number} 0") == "admitted"
                assert site.await_start(f"job-{number}", PATIENCE) - asked_at < 0.2 + SOON
            assert producer.ask("later 0.5") == "admitted"
            due = site.queue.read("later").available_at.timestamp()
            assert -0.005 <= site.await_start("later", PATIENCE) - due < 0.3
    assert_sound(path)
