"""What is no connection to the queue's schema, or in no transaction, is refused before anything is written."""

import asyncio
import sqlite3
from contextlib import AsyncExitStack, closing

import asyncpg
import django.db
import psycopg
import pytest
import sqlalchemy as sa
from fix_postgres import in_database
from server_callers import KINDS, Psycopg
from sqlalchemy.ext.asyncio import create_async_engine
from test_refusals import refused

import bandog
from bandog import InvalidJob


@pytest.fixture
def mine(postgres_server):
    made = Psycopg(postgres_server)
    yield made
    made.stop()


@pytest.fixture
def queue(mine):
    return mine.queue


@pytest.fixture
def other(postgres_server, postgres_url):
    """A database of the same server, for a test to fill."""
    name = f"{psycopg.conninfo.conninfo_to_dict(postgres_server.url)['dbname']}_other"
    with closing(psycopg.connect(postgres_url, autocommit=True)) as server:
        server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        server.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'".encode())
        yield in_database(postgres_url, name)
        server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


ELSEWHERE = "is not connected to the database of this queue, which is the schema 'bandog' at "


@pytest.mark.parametrize("there", ["nothing", "the same tables", "the same migration at the same time"])
def test_a_connection_to_another_database_is_refused(queue, mine, other, there):
    if there != "nothing":
        bandog.migrate(other)
    with closing(psycopg.connect(other)) as connection:
        if there == "the same migration at the same time":  # as a dump that was restored
            ((at,),) = mine.select("SELECT applied_at FROM bandog.migration")
            connection.execute("UPDATE bandog.migration SET applied_at = %s", (at,))
            connection.commit()
        refused(queue, connection, ELSEWHERE)
        if there != "nothing":
            assert connection.execute("SELECT count(*) FROM bandog.job").fetchone() == (0,)


def test_a_queue_on_another_schema_of_the_database_is_another_queue(mine, postgres_server):
    with closing(psycopg.connect(postgres_server.url, autocommit=True)) as setting_up:
        bandog.migrate(postgres_server.url, schema="a second, 100% other")
        try:
            with bandog.connect(postgres_server.url, schema="a second, 100% other") as second:
                assert second.enqueue(job_id="a", connection=mine.connection).kind == "admitted"
                assert mine.queue.enqueue(job_id="a", connection=mine.connection).kind == "admitted"
                (claim,) = mine.commit() or second.claim()
                assert second.acknowledge(claim, connection=mine.connection).kind == "completed"
                mine.commit()
                assert (second.read("a").state, mine.queue.read("a").state) == ("settled", "queued")
        finally:
            setting_up.execute('DROP SCHEMA "a second, 100% other" CASCADE')


def test_a_server_that_took_the_place_of_another_is_known_again(mine):
    """The queue asks once, and again before it refuses."""
    home = mine.queue.operations._elsewhere._home
    home.identity = "1/2/3"
    assert mine.queue.enqueue(job_id="a", connection=mine.connection).kind == "admitted"
    mine.commit()
    assert home.identity != "1/2/3"


def test_a_connection_is_asked_once(mine):
    home = mine.queue.operations._elsewhere._home
    mine.queue.enqueue(connection=mine.connection)
    assert list(home.same) == [mine.connection]
    home.identity = None
    mine.queue.enqueue(connection=mine.connection)
    assert home.identity is None


def without_transaction(kind, server):
    if kind == "psycopg":
        return psycopg.connect(server.url, autocommit=True)
    if kind == "django":
        connection = django.db.connections["server"]
        connection.close()
        connection.settings_dict.update(KINDS["psycopg-django"].settings(Where(server)))
        return connection
    url = KINDS["psycopg-sqlalchemy-connection"].sqlalchemy_url(Where(server), "psycopg")
    return sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool).connect()


class Where:
    """A server, as callers have one."""

    def __init__(self, server):
        self.server = server

    def parts(self):
        return psycopg.conninfo.conninfo_to_dict(self.server.url)


@pytest.mark.parametrize("kind", ["psycopg", "django", "sqlalchemy"])
def test_a_connection_in_no_transaction_is_refused(queue, postgres_server, kind):
    with closing(without_transaction(kind, postgres_server)) as connection:
        refused(queue, connection, "is not in a transaction.*nothing was changed. Begin a transaction first")


@pytest.mark.parametrize("kind", ["psycopg", "asyncpg", "sqlalchemy-asyncpg", "sqlalchemy-psycopg"])
def test_a_connection_of_coroutines_in_no_transaction_is_refused(mine, kind):
    async def opened(stack):
        if kind == "psycopg":
            return await stack.enter_async_context(
                await psycopg.AsyncConnection.connect(mine.server.url, autocommit=True)
            )
        if kind == "asyncpg":
            connection = await asyncpg.connect(mine.server.url)
            stack.push_async_callback(connection.close)
            return connection
        url = KINDS["asyncpg-sqlalchemy-connection"].sqlalchemy_url(mine, kind.removeprefix("sqlalchemy-"))
        engine = create_async_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        return await stack.enter_async_context(engine.connect())

    async def body():
        async with AsyncExitStack() as stack, await bandog.connect_async(mine.server.url) as queue:
            connection = await opened(stack)
            for _ in range(2):
                with pytest.raises(InvalidJob, match="Begin a transaction first"):
                    await queue.enqueue(job_id="a", connection=connection)
            return list(await queue.jobs())

    assert asyncio.run(body()) == []


@pytest.mark.parametrize("kind", ["async-psycopg", "asyncpg", "async-psycopg-sqlalchemy", "asyncpg-sqlalchemy-session"])
def test_a_connection_of_coroutines_takes_a_queue_of_coroutines(queue, postgres_server, kind):
    mine = KINDS[kind](postgres_server)
    try:
        refused(queue, mine.connection, r"has to be awaited, and this queue cannot: use .*connect_async")
    finally:
        mine.roll_back()
        mine.stop()


@pytest.mark.parametrize("library", ["sqlite3", "sqlalchemy"])
def test_a_file_is_not_taken_for_a_server(queue, path, library):
    opened = sqlite3.connect(path) if library == "sqlite3" else sa.create_engine(f"sqlite:///{path}").connect()
    with closing(opened) as connection:
        refused(queue, connection, "is connected to sqlite, and this queue is a schema of a PostgreSQL database")


def test_a_server_is_not_taken_for_a_file(mine, path):
    with bandog.connect(path) as file:
        refused(file, mine.connection, "is connected to postgresql, and this queue is an SQLite file")


@pytest.mark.parametrize("driver", ["psycopg2", "pg8000"])
def test_another_driver_below_sqlalchemy_is_refused(queue, driver):
    dialect = type("Dialect", (), {"name": "postgresql", "driver": driver})
    stand_in = type("Connection", (), {"exec_driver_sql": None, "dialect": dialect})
    stand_in.__module__ = "sqlalchemy.engine.base"
    refused(queue, stand_in(), f"uses {driver}, which is not supported; use psycopg")


def test_another_driver_below_django_is_refused(queue):
    driver = type("connection", (), {})
    driver.__module__ = "psycopg2.extensions"
    members = {"vendor": "postgresql", "ensure_connection": lambda _: None, "connection": driver()}
    stand_in = type("BaseDatabaseWrapper", (), members)
    stand_in.__module__ = "django.db.backends.base.base"
    refused(queue, stand_in(), "uses psycopg2, which is not supported")


def test_what_the_driver_raises_is_raised_unchanged(queue, mine, postgres_server):
    with pytest.raises(psycopg.errors.UndefinedTable):
        mine.execute("SELECT 1 FROM nowhere")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        queue.enqueue(job_id="a", connection=mine.connection)
    mine.roll_back()
    closed = psycopg.connect(postgres_server.url)
    closed.close()
    with pytest.raises(psycopg.OperationalError, match="closed"):
        queue.enqueue(job_id="a", connection=closed)
    with (
        closing(psycopg.connect(postgres_server.url, options="-c default_transaction_read_only=on")) as connection,
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
    ):
        queue.enqueue(job_id="a", connection=connection)
    assert list(queue.jobs()) == []


def test_asyncpg_in_an_aborted_transaction_or_closed_says_so_itself(postgres_server):
    async def body():
        async with await bandog.connect_async(postgres_server.url) as queue:
            connection = await asyncpg.connect(postgres_server.url)
            block = connection.transaction()
            await block.start()
            with pytest.raises(asyncpg.UndefinedTableError):
                await connection.execute("SELECT 1 FROM nowhere")
            with pytest.raises(asyncpg.InFailedSQLTransactionError):
                await queue.enqueue(job_id="a", connection=connection)
            await block.rollback()
            await connection.close()
            with pytest.raises(asyncpg.InterfaceError, match="closed"):
                await queue.enqueue(job_id="a", connection=connection)

    asyncio.run(body())
