"""What is no connection to the queue's file, or in no transaction, is refused before anything is written."""

import os
import shutil
import sqlite3
import sys
import threading
from contextlib import closing

import aiosqlite
import django.db
import pytest
import sqlalchemy as sa
from callers import KINDS
from face import LoopThread

import bandog
from bandog import Completed, InvalidJob, Job, QueueClosed


@pytest.fixture
def queue(path):
    with bandog.connect(path) as opened:
        yield opened


def every_call(queue, connection):
    """Each call that takes a connection; none must do anything."""
    queue.enqueue(job_id="theirs")
    claims = queue.claim()
    yield lambda: queue.ingest(Job(job_id="a"), connection=connection)
    yield lambda: queue.ingest_many([Job(job_id="a")], connection=connection)
    yield lambda: queue.enqueue(job_id="a", connection=connection)
    yield lambda: queue.settle(claims[0], Completed(), connection=connection)
    yield lambda: queue.settle_many([(claims[0], Completed())], connection=connection)
    yield lambda: queue.acknowledge(claims[0], connection=connection)
    yield lambda: queue.fail(claims[0], "why", connection=connection)
    yield lambda: queue.cancelled(claims[0], connection=connection)
    yield lambda: queue.outcome_unknown(claims[0], connection=connection)
    yield lambda: queue.release(claims[0], connection=connection)


def refused(queue, connection, match):
    for call in every_call(queue, connection):
        with pytest.raises(InvalidJob, match=match) as caught:
            call()
        assert caught.value.field == "connection"
    assert [record.job_id for record in queue.jobs()] == ["theirs"]
    assert queue.read("theirs").state == "running"


class Lookalike:
    """Has what a connection has, and is none."""

    in_transaction = True

    def cursor(self):
        raise AssertionError

    execute = cursor


@pytest.mark.parametrize("what", ["path", "cursor", "engine", "lookalike", "number", "queue", "class"])
def test_what_is_no_connection_is_refused_at_once_with_what_is_one(queue, path, what):
    with closing(sqlite3.connect(path)) as connection:
        made = {
            "path": str(path),
            "cursor": connection.cursor(),
            "engine": sa.create_engine(f"sqlite:///{path}"),
            "lookalike": Lookalike(),
            "number": 0,
            "queue": queue,
            "class": sqlite3.Connection,
        }
        refused(queue, made[what], r"connection: must be .* sqlite3, aiosqlite, SQLAlchemy .* or Django, not ")


@pytest.mark.parametrize("where", ["other", "memory", "temporary", "copy"])
def test_a_connection_to_another_file_is_refused(queue, path, folder, where):
    other = folder / "other.sqlite"
    if where == "other":
        bandog.connect(other).close()
    if where == "copy":
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(other)) as target:
            source.backup(target)
    name = {"memory": ":memory:", "temporary": ""}.get(where, other)
    with closing(sqlite3.connect(name)) as connection:
        shown = "a database in memory" if where in {"memory", "temporary"} else "other.sqlite"
        refused(queue, connection, f"sqlite3.Connection is connected to .*{shown}.* and this queue is .*jobs.sqlite")


def test_the_same_file_by_another_name_is_the_same_file(queue, path, folder):
    link = folder / "link.sqlite"
    link.symlink_to(path)
    with closing(sqlite3.connect(f"file:{link}?mode=rw", uri=True)) as connection, connection:
        queue.enqueue(job_id="a", connection=connection)
    assert queue.read("a").state == "queued"


def test_a_queue_that_was_opened_by_a_relative_path_keeps_its_file(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with bandog.connect("jobs.sqlite") as queue:
        monkeypatch.chdir("/")
        with closing(sqlite3.connect(folder / "jobs.sqlite")) as connection, connection:
            queue.enqueue(job_id="a", connection=connection)
        assert queue.read("a").state == "queued"


def test_other_files_may_be_attached(queue, path, folder):
    """Business rows in a file of their own are written by the same transaction."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ATTACH ? AS business", (str(folder / "business.sqlite"),))
        connection.execute("CREATE TABLE business.paid (word TEXT)")
        with connection:
            connection.execute("INSERT INTO paid VALUES ('x')")
            queue.enqueue(job_id="a", connection=connection)
        assert connection.execute("SELECT word FROM paid").fetchall() == [("x",)]
    assert queue.read("a").state == "queued"


def test_the_queues_file_may_be_the_one_that_is_attached(queue, path, folder):
    with closing(sqlite3.connect(folder / "business.sqlite")) as connection:
        connection.execute("ATTACH ? AS jobs", (str(path),))
        with connection:
            queue.enqueue(job_id="a", connection=connection)
    assert queue.read("a").state == "queued"


def test_the_names_of_the_tables_must_mean_the_queues(queue, path, folder):
    other = folder / "other.sqlite"
    bandog.connect(other).close()
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("ATTACH ? AS jobs", (str(path),))
        refused(queue, connection, r"is connected to .*other.sqlite")


def without_transaction(kind, path):
    if kind == "sqlite3":
        return sqlite3.connect(path, isolation_level=None)
    if kind == "sqlite3-autocommit":
        return sqlite3.connect(path, autocommit=True)
    if kind == "django":
        connection = django.db.connections["default"]
        connection.close()
        connection.settings_dict["NAME"] = str(path)
        return connection
    engine = sa.create_engine(f"sqlite:///{path}", isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    return engine.connect()


AUTOCOMMIT = ["sqlite3", "django", "sqlalchemy"] + ["sqlite3-autocommit"] * (sys.version_info >= (3, 12))


@pytest.mark.parametrize("kind", AUTOCOMMIT)
def test_a_connection_in_no_transaction_is_refused(queue, path, kind):
    with closing(without_transaction(kind, path)) as connection:
        refused(queue, connection, "is not in a transaction.*Begin a transaction first")


@pytest.mark.parametrize("kind", ["aiosqlite", "async-sqlalchemy-connection", "async-sqlalchemy-session"])
def test_a_connection_of_coroutines_takes_a_queue_of_coroutines(queue, path, kind):
    caller = KINDS[kind](path)
    try:
        refused(queue, caller.connection, r"has to be awaited, and this queue cannot: use .*connect_async")
    finally:
        caller.stop()


def test_aiosqlite_in_no_transaction_is_refused(path):
    thread = LoopThread()

    async def body():
        async with (
            await bandog.connect_async(path) as queue,
            aiosqlite.connect(path, isolation_level=None) as connection,
        ):
            with pytest.raises(InvalidJob, match="Begin a transaction first"):
                await queue.enqueue(job_id="a", connection=connection)
            await connection.execute("BEGIN")
            await queue.enqueue(job_id="b", connection=connection)
            await connection.commit()
            return [record.job_id for record in await queue.jobs()]

    try:
        assert thread.call(body) == ["b"]
    finally:
        thread.stop()


def test_a_connection_that_blocks_serves_a_queue_of_coroutines_too(path):
    thread = LoopThread()

    async def body():
        async with await bandog.connect_async(path) as queue:
            with closing(sqlite3.connect(path)) as connection:
                with connection:
                    await queue.enqueue(job_id="a", connection=connection)
                (claim,) = await queue.claim()
                with connection:
                    await queue.acknowledge(claim, connection=connection)
            return (await queue.read("a")).outcome

    try:
        assert thread.call(body) == Completed()
    finally:
        thread.stop()


@pytest.mark.parametrize("library", ["sqlalchemy", "django"])
def test_another_database_is_refused(queue, library):
    """It says so before it is asked for anything: there is no server here."""
    if library == "sqlalchemy":
        engine = sa.create_mock_engine("postgresql+psycopg://", lambda *_: None)
        stand_in = type("Connection", (), {"exec_driver_sql": None, "dialect": engine.dialect})
        stand_in.__module__ = "sqlalchemy.engine.base"
    else:
        stand_in = type("BaseDatabaseWrapper", (), {"vendor": "postgresql"})
        stand_in.__module__ = "django.db.backends.base.base"
    refused(queue, stand_in(), "is connected to postgresql, and this queue is an SQLite file")


def test_a_file_that_took_the_place_of_the_queues_is_another_file(queue, path, folder):
    with closing(sqlite3.connect(path)) as before:
        copy = folder / "copy.sqlite"
        shutil.copy(path, copy)
        copy.replace(path)
        with closing(sqlite3.connect(path)) as after:
            for connection in (before, after):
                with pytest.raises(InvalidJob, match="Pass a connection to the queue's own file"):
                    queue.enqueue(connection=connection)


def test_a_closed_queue_takes_no_connection(path):
    queue = bandog.connect(path)
    (claim,) = queue.enqueue() and queue.claim()
    queue.close()
    with closing(sqlite3.connect(path)) as connection:
        with pytest.raises(QueueClosed, match="closed; open it again"):
            queue.enqueue(connection=connection)
        with pytest.raises(QueueClosed):
            queue.acknowledge(claim, connection=connection)
        assert not connection.in_transaction


def test_a_forked_child_takes_no_connection(queue, path):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with closing(sqlite3.connect(path)) as connection:
                queue.enqueue(connection=connection)
        except bandog.ForkedQueue:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_what_the_driver_raises_is_raised_unchanged(queue, path):
    connection = sqlite3.connect(path)
    connection.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        queue.enqueue(connection=connection)
    raised = []
    with closing(sqlite3.connect(path)) as connection:

        def elsewhere():
            try:
                queue.enqueue(connection=connection)
            except sqlite3.ProgrammingError as error:
                raised.append(str(error))

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert "thread" in raised[0]
    with (
        closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        queue.enqueue(connection=connection)
    with closing(sqlite3.connect(path, timeout=0)) as connection, closing(sqlite3.connect(path)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            queue.enqueue(connection=connection)


def test_a_transaction_whose_view_is_out_of_date_is_the_callers_to_begin_again(queue, path):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM bandog_job").fetchall()
        queue.enqueue(job_id="a")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            queue.enqueue(job_id="a", connection=connection)
        connection.execute("ROLLBACK")
        connection.execute("BEGIN")
        assert queue.enqueue(job_id="a", connection=connection).kind == "duplicate"
