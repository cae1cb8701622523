"""The queue's file is open in Python's own sqlite3 too, in the same process: nothing that was acknowledged is lost.

Both libraries lock with POSIX locks by default, which belong to the process: each would be granted the write lock
beside the other, and closing a connection would drop the other's locks.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from mixer import Mixer
from processes import PATIENCE, Child, assert_sound, eventually

import bandog
from bandog import _core

SECONDS = float(os.environ.get("BANDOG_SHARING_SECONDS", "10"))


def application(path: Path) -> sqlite3.Connection:
    """The user's own connection; statements commit by themselves."""
    return sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)


def make_table(path: Path) -> None:
    with closing(application(path)) as connection:
        connection.execute("CREATE TABLE application (writer TEXT NOT NULL, number INTEGER NOT NULL)")


def test_the_libraries_are_two() -> None:
    """Otherwise nothing here shows anything."""
    assert _core.sqlite_version() != sqlite3.sqlite_version


def test_the_bundled_library_has_no_wal_reset_bug() -> None:
    version = tuple(int(part) for part in _core.sqlite_version().split("."))
    assert version >= (3, 51, 3)


def test_the_queue_keeps_its_commits_when_the_application_closes(tmp_path: Path, start: Callable[..., Child]) -> None:
    path = tmp_path / "jobs.sqlite"
    asker = start("asker.py", path)
    with bandog.connect(path) as queue:
        for number in range(20):
            with closing(application(path)) as connection:
                assert connection.execute("SELECT count(*) FROM bandog_job").fetchone() == (5 * number,)
            for _ in range(5):
                queue.enqueue(number)
            # Another process, which would see the old pages or none if the locks or the log had gone.
            answer = asker.ask("SELECT count(*) FROM bandog_job")
            assert json.loads(answer) == [[5 * (number + 1)]]
    late = start("asker.py", path)
    assert json.loads(late.ask("SELECT count(*) FROM bandog_job")) == [[100]]
    assert_sound(path)


def test_the_application_keeps_its_commits_when_the_queue_closes(tmp_path: Path, start: Callable[..., Child]) -> None:
    path = tmp_path / "jobs.sqlite"
    bandog.connect(path).close()
    make_table(path)
    asker = start("asker.py", path)
    with closing(application(path)) as connection:
        for number in range(20):
            with bandog.connect(path) as queue:
                queue.enqueue(number)
            for row in range(5):
                connection.execute("INSERT INTO application VALUES ('app', ?)", (row,))
            counts = "SELECT (SELECT count(*) FROM application), (SELECT count(*) FROM bandog_job)"
            assert json.loads(asker.ask(counts)) == [[5 * (number + 1), number + 1]]
    late = start("asker.py", path)
    assert json.loads(late.ask(counts)) == [[100, 20]]
    assert_sound(path)


def test_the_queue_waits_for_the_applications_transaction(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    with bandog.connect(path, busy_timeout=0.2) as hasty, bandog.connect(path, busy_timeout=PATIENCE) as patient:
        make_table(path)
        with closing(application(path)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO application VALUES ('app', 1)")
            with pytest.raises(bandog.StoreBusy):
                hasty.enqueue(job_id="refused")
            thread = threading.Thread(target=patient.enqueue, kwargs={"job_id": "waited"}, daemon=True)
            thread.start()
            with pytest.raises(bandog.StoreBusy):
                hasty.claim()
            assert thread.is_alive(), "both held the write lock at once"
            connection.execute("COMMIT")
            thread.join(PATIENCE)
            assert not thread.is_alive()
            assert connection.execute("SELECT job_id FROM bandog_job").fetchall() == [("waited",)]
            assert connection.execute("SELECT count(*) FROM application").fetchone() == (1,)
    assert_sound(path)


def test_the_application_waits_for_the_queues_transaction(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    with bandog.connect(path) as queue:
        make_table(path)
        jobs = [bandog.Job(payload=number) for number in range(20_000)]
        refused = 0
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
            thread = threading.Thread(target=queue.ingest_many, args=(jobs,), daemon=True)
            thread.start()
            while thread.is_alive():
                try:
                    connection.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError as error:
                    if "locked" not in str(error):
                        raise
                    refused += 1
                    time.sleep(0.001)
                    continue
                # Ours now, so that the queue's transaction is either over or not begun.
                seen = connection.execute("SELECT count(*) FROM bandog_job").fetchone()[0]
                assert seen in {0, len(jobs)}
                connection.execute("INSERT INTO application VALUES ('app', ?)", (seen,))
                connection.execute("COMMIT")
            thread.join(PATIENCE)
            assert refused, "the application was never kept out"
            assert connection.execute("SELECT count(*) FROM bandog_job").fetchone() == (len(jobs),)
    assert_sound(path)


def test_a_reader_keeps_its_snapshot_while_the_queue_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    with bandog.connect(path) as queue, closing(application(path)) as reader:
        queue.ingest_many([bandog.Job(payload="x" * 2000, queue="first") for _ in range(500)])
        count = "SELECT count(*), coalesce(sum(length(payload)), 0) FROM bandog_job"
        for round_number in range(3):
            reader.execute("BEGIN")
            before = reader.execute(count).fetchone()
            # Far beyond the 1,000 pages after which SQLite checkpoints by itself.
            for _ in range(5):
                queue.ingest_many([bandog.Job(payload="y" * 2000) for _ in range(500)])
                assert reader.execute(count).fetchone() == before
            while claims := queue.claim(limit=500):
                queue.settle_many([(claim, bandog.Completed()) for claim in claims])
                assert reader.execute(count).fetchone() == before
            reader.execute("COMMIT")
            assert reader.execute(count).fetchone()[0] == 500 + 2500 * (round_number + 1)
        outcomes = reader.execute("SELECT kind, count(*) FROM bandog_outcome GROUP BY kind").fetchall()
        assert outcomes == [("completed", 8_000)]
    assert_sound(path)


def test_both_write_and_reopen_in_two_processes(tmp_path: Path, start: Callable[..., Child]) -> None:
    path = tmp_path / "jobs.sqlite"
    bandog.connect(path).close()
    make_table(path)
    here = Mixer(path, "here")
    there = start("mixer.py", path, "there")
    assert there.hear() == "ready"
    here.start()
    until = time.monotonic() + SECONDS
    eventually(lambda: here.problems or time.monotonic() > until, "the time is over", patience=SECONDS + PATIENCE)
    acknowledged = here.stop() | json.loads(there.ask("stop"))
    there.finish()
    print(dict(sorted(acknowledged.items())))

    asker = start("asker.py", path)
    assert json.loads(asker.ask("PRAGMA integrity_check")) == [["ok"]]
    stored = dict(json.loads(asker.ask("SELECT queue, count(*) FROM bandog_job GROUP BY queue")))
    stored |= dict(json.loads(asker.ask("SELECT writer, count(DISTINCT number) FROM application GROUP BY writer")))
    assert stored == acknowledged
    assert min(acknowledged.values()) > 0, "somebody never got a turn"
    assert_sound(path)
