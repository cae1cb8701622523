"""No room left: a typed error, nothing marked done that is not, and everything goes on once there is room again."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from processes import PATIENCE, assert_sound, eventually, select

import bandog

RESERVE = 5 << 19
"""More than half: what is in the write-ahead log must fit into the database once more before the log starts anew."""

# In the main thread, so that a test that takes too long still gives its file system back.
pytestmark = pytest.mark.timeout(method="signal")


class SmallDisk:
    """A queue on a file system of 4 MiB, most of which is taken by something that can be deleted."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "jobs.sqlite"
        self.ballast = folder / "ballast"
        self.ballast.write_bytes(bytes(RESERVE))
        self.queue = bandog.connect(self.path)
        self.acknowledged: list[str] = []
        self.refused: list[str] = []

    def enqueue(self, job_id: str, size: int = 0) -> None:
        try:
            self.queue.enqueue("x" * size, job_id=job_id, max_recoveries=5)
        except bandog.StorageFull:
            self.refused.append(job_id)
            raise
        self.acknowledged.append(job_id)

    def fill(self, victim: bandog.ClaimedJob) -> None:
        """Until not even one page can be written: first with jobs, then with renewals, the smallest write there is."""
        for size in (100_000, 20_000, 0):
            with pytest.raises(bandog.StorageFull) as caught:  # noqa: PT012 - which of them does not fit is not known
                for number in range(10_000):
                    self.enqueue(f"job-{size}-{number}", size)
            assert caught.value.target == str(self.path)
            assert "Free some space" in str(caught.value)
        with pytest.raises(bandog.StorageFull):  # noqa: PT012
            for number in range(10_000):
                self.queue.renew(victim, lease=60 + number)

    def free(self) -> None:
        self.ballast.unlink()


@pytest.fixture
def disk(small_disk: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(small_disk)
    with disk.queue:
        yield disk


@contextmanager
def old_snapshot(path: Path) -> Iterator[None]:
    """A reader that keeps the write-ahead log from being started anew, so that it must grow and cannot."""
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM bandog_job").fetchall()
        yield
        reader.execute("ROLLBACK")


def drain_once(disk: SmallDisk) -> Counter[str]:
    """Run everything that is left; how often each job ran."""
    ran: Counter[str] = Counter()
    with bandog.Watchdog(disk.queue, lambda job, _: ran.update([job.job_id])) as watchdog:
        eventually(lambda: watchdog.tick().kind == "idle" and not disk.queue.has_pending_work(), "all jobs are done")
    return ran


def test_a_full_disk_refuses_and_recovers_without_restart(disk: SmallDisk) -> None:
    queue = disk.queue
    for number in range(8):
        disk.enqueue(f"early-{number}")
    claims = queue.claim(limit=5, lease=60)
    first, second, third, fourth, victim = claims
    with old_snapshot(disk.path):
        disk.fill(victim)
        for attempt in range(3):
            with pytest.raises(bandog.StorageFull):
                queue.acknowledge(first, {"attempt": attempt})
            with pytest.raises(bandog.StorageFull):
                queue.fail(second, "it failed")
            with pytest.raises(bandog.StorageFull):
                queue.release(third)
            with pytest.raises(bandog.StorageFull):
                queue.renew(fourth)
            with pytest.raises(bandog.StorageFull):
                queue.claim(limit=2)
            with pytest.raises(bandog.StorageFull):
                queue.ingest_many([bandog.Job(job_id=f"bulk-{number}") for number in range(50)])
            # Reading goes on, and nothing of it was done.
            for claim in claims:
                record = queue.read(claim.job_id)
                assert (record.state, record.outcome, record.attempts) == ("running", None, 1)
        # A second handle on the file, and a new file, say the same.
        with bandog.connect(disk.path) as other, pytest.raises(bandog.StorageFull):
            other.enqueue(job_id="through-another")
        with pytest.raises(bandog.StorageFull):
            bandog.connect(disk.path.with_name("new.sqlite"))

        disk.free()
        assert queue.acknowledge(first, {"attempt": "last"}).kind == "completed"
        assert queue.fail(second, "it failed").kind == "failed"
        assert queue.release(third).kind == "released"
        assert queue.renew(fourth) is None
        assert queue.acknowledge(fourth).kind == "completed"
        assert queue.acknowledge(victim).kind == "completed"

    # What was refused was not stored; what was acknowledged was, once.
    stored = [job for (job,) in select(disk.path, "SELECT job_id FROM bandog_job")]
    assert sorted(stored) == sorted(disk.acknowledged)
    assert len(disk.refused) == 3
    # The large refused jobs need more room than is left; the small one is admitted now.
    assert queue.enqueue("", job_id=disk.refused[-1], max_recoveries=5).kind == "admitted"
    expected = {*disk.acknowledged, disk.refused[-1]} - {claim.job_id for claim in (first, second, fourth, victim)}
    ran = drain_once(disk)
    assert set(ran) == expected
    assert set(ran.values()) == {1}
    assert queue.read(first.job_id).outcome == bandog.Completed({"attempt": "last"})
    assert queue.read(second.job_id).outcome == bandog.Failed("it failed")
    assert_sound(disk.path)


def test_a_runtime_keeps_trying_until_there_is_room(disk: SmallDisk) -> None:
    queue = disk.queue
    disk.enqueue("running")
    disk.enqueue("other")
    full, started = threading.Event(), threading.Event()
    ran: Counter[str] = Counter()
    ticks: list[bandog.Tick] = []
    refusals: list[bandog.StorageFull] = []

    class Watched:
        """The queue, with its refusals noted."""

        engine = queue.engine
        operations = queue.operations
        read = staticmethod(queue.read)

        @staticmethod
        def settle_many(reports: list) -> list[bandog.Settlement]:
            try:
                return queue.settle_many(reports)
            except bandog.StorageFull as error:
                refusals.append(error)
                raise

    def execute(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> bandog.Completed:
        ran[job.job_id] += 1
        started.set()
        assert full.wait(PATIENCE)
        return bandog.Completed("the work was done while the disk was full")

    watchdog = bandog.Watchdog(Watched(), execute, lease=60)
    thread = threading.Thread(target=lambda: ticks.append(watchdog.tick()), daemon=True)
    thread.start()
    assert started.wait(PATIENCE)
    (victim,) = queue.claim()
    with old_snapshot(disk.path):
        disk.fill(victim)
        full.set()
        eventually(lambda: len(refusals) >= 3, "the settlement is refused, and tried again")
        assert queue.read("running").state == "running"
        assert not ticks
        disk.free()
        thread.join(PATIENCE)
    assert not thread.is_alive()
    (tick,) = ticks
    assert (tick.kind, tick.job_id) == ("settled", "running")
    assert ran == {"running": 1}
    record = queue.read("running")
    assert record.outcome == bandog.Completed("the work was done while the disk was full")
    assert record.attempts == 1
    queue.acknowledge(victim)
    assert set(drain_once(disk)) == set(disk.acknowledged) - {"running", "other"}
    assert_sound(disk.path)


def test_without_a_reader_in_the_way_every_answer_is_true(disk: SmallDisk) -> None:
    """The log may find room for a small write among what it has already; then the answer says so, and holds."""
    queue = disk.queue
    for number in range(30):
        disk.enqueue(f"early-{number}")
    claims = queue.claim(limit=30, lease=60)
    disk.fill(claims[-1])
    done, refused = [], []
    for claim in claims:
        try:
            queue.acknowledge(claim, "x" * 2000)
        except bandog.StorageFull:
            refused.append(claim)
        else:
            done.append(claim)
    assert refused, "the disk was not full"
    states = {claim.job_id: queue.read(claim.job_id).state for claim in claims}
    assert all(states[claim.job_id] == "settled" for claim in done)
    assert all(states[claim.job_id] == "running" for claim in refused)
    disk.free()
    for claim in refused:
        assert queue.acknowledge(claim).kind == "completed"
    assert set(drain_once(disk)) == set(disk.acknowledged) - set(states)
    assert_sound(disk.path)
