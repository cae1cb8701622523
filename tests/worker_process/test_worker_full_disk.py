"""C30 through a worker: while the disk is full it waits, says so now and then, and goes on once there is room."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from processes import PATIENCE, assert_sound, eventually, select

import bandog

RESERVE = 5 << 19
"""More than half: what is in the write-ahead log must fit into the database once more before the log starts anew."""

RUNNING = 4
FULL_FOR = 5.0
"""Seconds that the disk stays full."""

# In the main thread, so that a test that takes too long still gives its file system back.
pytestmark = pytest.mark.timeout(method="signal")


def fill(queue: bandog.Queue, admitted: list[str]) -> None:
    """Until not even a small job fits."""
    for size in (100_000, 20_000, 0):
        with pytest.raises(bandog.StorageFull):  # noqa: PT012 - which of them does not fit is not known
            for number in range(10_000):
                job_id = f"fill-{size}-{number}"
                queue.enqueue("x" * size, job_id=job_id, queue="later")
                admitted.append(job_id)


def test_jobs_finish_once_there_is_room(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, ballast = small_disk / "jobs.sqlite", small_disk / "ballast"
    ballast.write_bytes(bytes(RESERVE))
    full = threading.Event()
    ran: Counter[str] = Counter()
    admitted = [f"job-{number}" for number in range(RUNNING + 20)]

    def execute(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> bandog.Completed:
        ran[job.job_id] += 1
        assert full.wait(PATIENCE)
        return bandog.Completed("x" * 2000)

    with bandog.connect(path) as queue:
        queue.ingest_many([bandog.Job(job_id=job_id) for job_id in admitted])
        # A reader keeps the log from being started anew, so that it must grow and cannot.
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM bandog_job").fetchall()
            worker = bandog.Worker(queue, execute, concurrency=RUNNING, lease=8, grace=5)
            with worker:
                eventually(lambda: worker.stats().running == RUNNING, "they run")
                running = dict(ran)
                fill(queue, admitted)
                # Now the reports come, which do not fit, and renewals, which have to.
                full.set()
                eventually(lambda: worker.stats().problem, "it cannot record them")
                assert "Free some space" in str(worker.stats().problem)
                over = time.monotonic() + FULL_FOR
                eventually(lambda: time.monotonic() > over, "it stays full")
                # Nothing is marked done that is not.
                assert select(path, "SELECT count(*) FROM bandog_outcome") == [(0,)]
                assert worker.running
                assert dict(ran) == running, "no other job can have been claimed"
                ballast.unlink()
                reader.execute("ROLLBACK")
                # With no restart; the longest retreat is half a minute and a bit.
                eventually(lambda: queue.stats().outcomes.get("completed") == len(admitted), "all are done", PATIENCE)
                assert worker.stats().problem is None
        for job_id in admitted:
            record = queue.read(job_id)
            assert record.outcome == bandog.Completed("x" * 2000)
            # A claim whose lease could not be renewed in time was lost, and ran again; no other did.
            assert ran[job_id] == record.attempts == 1 + record.recoveries
    assert_sound(path)
    logged = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    print(*logged, sep="\n")
    # Once a minute each: what the worker, and what its renewals have to say.
    assert len([line for line in logged if "the worker's store" in line]) == 1
    assert len([line for line in logged if "could not be renewed" in line]) <= 1
    assert len(logged) <= 2
