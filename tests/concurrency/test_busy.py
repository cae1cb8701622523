"""Somebody else holds the write lock: what waits, for how long, and what does not wait at all."""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from processes import PATIENCE, Child, Look
from steps import Background

import bandog

if TYPE_CHECKING:
    from fix_target import Target


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.sqlite"
    bandog.connect(path).close()
    return path


@pytest.fixture
def other(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)) as connection:
        yield connection


@pytest.fixture
def look(target: Target) -> Iterator[Look]:
    """Another connection to a store that is there."""
    target.connect().close()
    with target.looking() as look:
        yield look


WRITES: dict[str, Callable[[bandog.Queue, bandog.ClaimedJob], object]] = {
    "enqueue": lambda queue, _: queue.enqueue(job_id="refused"),
    "ingest_many": lambda queue, _: queue.ingest_many([bandog.Job(), bandog.Job()]),
    "claim": lambda queue, _: queue.claim(),
    "renew": lambda queue, claim: queue.renew(claim),
    "settle": lambda queue, claim: queue.acknowledge(claim),
    "recover": lambda queue, _: queue.recover(),
    "cancel": lambda queue, claim: queue.cancel(claim.job_id),
    "requeue": lambda queue, _: queue.requeue("dead"),
}


@pytest.mark.parametrize("write", WRITES)
def test_every_write_gives_up_after_the_stated_timeout(target: Target, look: Look, write: str) -> None:
    with target.connect(busy_timeout=0.3) as queue:
        queue.enqueue(job_id="dead")
        queue.fail(queue.claim()[0], "why")
        queue.enqueue(job_id="early")
        (claim,) = queue.claim()
        look(target.lock)
        try:
            begin = time.monotonic()
            with pytest.raises(bandog.StoreBusy) as caught:
                Background(lambda: WRITES[write](queue, claim)).join(PATIENCE)
            assert time.monotonic() - begin >= 0.3
        finally:
            look("COMMIT")
        assert caught.value.waited >= 0.3
        assert caught.value.target in repr(queue)
        for word in (caught.value.target, "connection=", "Try again"):
            assert word in str(caught.value)
        assert queue.acknowledge(claim).kind == "completed"
    assert target.select("SELECT job_id FROM bandog_job ORDER BY number") == [("dead",), ("early",)]
    target.assert_sound()


@pytest.mark.parametrize("timeout", [0, 0.05, timedelta(milliseconds=50), "url"])
def test_the_timeout_is_the_callers(path: Path, other: sqlite3.Connection, timeout: object) -> None:
    options = {} if timeout == "url" else {"busy_timeout": timeout}
    with bandog.connect(f"sqlite:///{path}?busy_timeout=0.05" if timeout == "url" else path, **options) as queue:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(bandog.StoreBusy):
            queue.enqueue()
        other.execute("ROLLBACK")
        queue.enqueue()


def test_opening_waits_no_longer_than_its_timeout(tmp_path: Path) -> None:
    """Of a file without our tables yet: those that are there need no lock."""
    path = tmp_path / "app.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE application (number INTEGER)")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(bandog.StoreBusy):
            bandog.connect(path, busy_timeout=0.1)
        other.execute("COMMIT")
        bandog.connect(path).close()
        other.execute("BEGIN IMMEDIATE")
        bandog.connect(path, busy_timeout=0.1).close()
        other.execute("COMMIT")


def test_several_callers_get_their_own_timeouts(target: Target, look: Look) -> None:
    """Each gives up by its own clock, the later ones included, and the one that can wait longer gets through."""
    refused: list[bandog.StoreBusy] = []
    with target.connect(busy_timeout=0.3) as hasty, target.connect(busy_timeout=PATIENCE) as patient:
        look(target.lock)

        def refuse(number: int) -> None:
            try:
                hasty.enqueue(job_id=f"refused-{number}")
            except bandog.StoreBusy as error:
                refused.append(error)

        threads = [threading.Thread(target=refuse, args=(number,), daemon=True) for number in range(8)]
        waiter = threading.Thread(target=patient.enqueue, kwargs={"job_id": "waited"}, daemon=True)
        for thread in [waiter, *threads]:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        assert len(refused) == 8
        assert all(error.waited >= 0.3 for error in refused)
        look("COMMIT")
        waiter.join(PATIENCE)
        assert not waiter.is_alive()
    assert target.select("SELECT job_id FROM bandog_job") == [("waited",)]


def test_reads_wait_for_no_writer(target: Target, look: Look) -> None:
    # If one of these waited, it would wait for ever: the lock is held by this very thread.
    with target.connect(busy_timeout=3600) as queue:
        queue.enqueue({"text": "x"}, job_id="early")
        look(target.lock)
        look("DELETE FROM bandog_ready")
        for _ in range(3):
            assert queue.read("early").state == "queued"
            assert queue.has_pending_work()
            assert queue.next_wake() is not None
            with pytest.raises(bandog.JobNotFound):
                queue.read("never")
        writer = threading.Thread(target=queue.enqueue, kwargs={"job_id": "late"}, daemon=True)
        writer.start()
        # Beside a write of the same queue that waits, too.
        for _ in range(100):
            assert queue.read("early").state == "queued"
        assert writer.is_alive()
        with target.connect() as second:
            assert second.read("early").state == "queued"
        look("ROLLBACK")
        writer.join(PATIENCE)
        assert not writer.is_alive()
        assert queue.read("late").state == "queued"


def test_a_reader_that_never_ends_holds_up_no_writer(target: Target, look: Look) -> None:
    with target.connect(busy_timeout=1) as queue:
        queue.enqueue(job_id="early")
        look(target.snapshot)
        assert look("SELECT count(*) FROM bandog_job") == [(1,)]
        for _ in range(3):
            queue.ingest_many([bandog.Job(payload="x" * 500) for _ in range(1000)])
            claims = queue.claim(limit=1000)
            queue.settle_many([(claim, bandog.Completed()) for claim in claims])
        assert look("SELECT count(*) FROM bandog_job") == [(1,)]
        look("COMMIT")
    target.assert_sound()


@pytest.mark.parametrize("call", ["enqueue", "claim", "settle", "tick"])
def test_ctrl_c_ends_a_blocked_call(target: Target, start: Callable[..., Child], call: str) -> None:
    blocked = start("blocked.py", target.url, call)
    assert blocked.hear() == "blocking"
    blocked.process.send_signal(signal.SIGINT)
    # The call would wait for two minutes; an answer within seconds is not the lock's.
    assert blocked.hear(patience=10) == "interrupted"
    assert blocked.hear() == "admitted completed"
    # Ctrl-C ends the wait, not the operation: an interrupted write is there or not, and whole either way. But a claim
    # that nobody has received must not keep its job from everybody until its lease of a minute has ended.
    assert blocked.hear() == "early settled"
    blocked.finish()
    target.assert_sound()
    assert target.select("SELECT DISTINCT kind FROM bandog_outcome") == [("completed",)]
