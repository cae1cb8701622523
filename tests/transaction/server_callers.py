"""Callers with a connection of their own to the queue's PostgreSQL database, as :mod:`callers`.

The clock of that schema stands still, so that times can be told exactly.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import asyncpg
import callers
import psycopg
import sqlalchemy as sa
from callers import Async, Caller
from face import BlockingQueue, LoopThread
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import bandog
from bandog.testing import FakeClock

if TYPE_CHECKING:
    from fix_postgres import Server


class OnServer(Caller):
    """What differs from a file: where the queue is, and how a look at the tables is written."""

    def __init__(self, server: Server, **options: Any) -> None:
        self.server = server
        self.clock = FakeClock()
        server.start_over(self.clock.now())
        server.execute("CREATE TABLE IF NOT EXISTS business (word text NOT NULL UNIQUE)")
        server.execute("TRUNCATE business")
        self._undo = ExitStack()
        self.queue = self._connect_queue(options)
        self.begin()

    def _connect_queue(self, options: dict[str, Any]) -> Any:
        return self._undo.enter_context(bandog.connect(self.server.url, clock=self.clock, **options))

    def expire(self) -> None:
        self.execute("UPDATE bandog.lease SET lease_until = bandog.clock()")

    def select(self, statement: str) -> list[tuple[Any, ...]]:
        return self.server.execute(statement.replace("bandog_", "bandog."))

    def parts(self) -> dict[str, Any]:
        return conninfo_to_dict(self.server.url)

    def sqlalchemy_url(self, driver: str) -> sa.URL:
        parts = self.parts()
        query = {name: str(parts[name]) for name in ("host", "port") if name in parts}
        return sa.URL.create(
            f"postgresql+{driver}",
            username=parts.get("user"),
            password=parts.get("password"),
            database=parts["dbname"],
            query=query,
        )


class Psycopg(OnServer):
    """In a transaction from the first statement on."""

    def begin(self) -> None:
        self.connection = psycopg.connect(self.server.url)

    def execute(self, statement: str) -> None:
        self.connection.execute(statement.encode())

    def commit(self) -> None:
        self.connection.commit()

    def roll_back(self) -> None:
        self.connection.rollback()

    def close(self) -> None:
        self.connection.close()


class PsycopgAutocommit(Psycopg):
    """In a transaction where it says so, and nested ones."""

    def begin(self) -> None:
        self.connection = psycopg.connect(self.server.url, autocommit=True)
        self._block = self.connection.transaction()
        self._block.__enter__()

    def commit(self) -> None:
        self._block.__exit__(None, None, None)

    def roll_back(self) -> None:
        error = psycopg.Rollback()
        assert self._block.__exit__(psycopg.Rollback, error, None)

    def savepoint(self) -> None:
        self._inner = self.connection.transaction()
        self._inner.__enter__()

    def roll_back_to_savepoint(self) -> None:
        assert self._inner.__exit__(psycopg.Rollback, psycopg.Rollback(), None)

    def release_savepoint(self) -> None:
        self._inner.__exit__(None, None, None)


class SqlalchemyConnection(OnServer, callers.SqlalchemyConnection):
    def begin(self) -> None:
        self.engine = sa.create_engine(self.sqlalchemy_url("psycopg"))
        self._undo.callback(self.engine.dispose)
        self.connection = self.engine.connect()


class SqlalchemySession(SqlalchemyConnection):
    def begin(self) -> None:
        super().begin()
        self.connection.close()
        self.connection = Session(self.engine)


class Django(OnServer, callers.Django):
    alias = "server"

    def settings(self) -> dict[str, Any]:
        parts = self.parts()
        names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
        return {name: parts.get(of, "") for name, of in names.items()}


class DjangoDebug(Django):
    """With Django's log of queries, which formats their parameters."""

    def begin(self) -> None:
        callers.connections[self.alias].force_debug_cursor = True
        super().begin()

    def stop(self) -> None:
        super().stop()
        callers.connections[self.alias].force_debug_cursor = False


class AsyncOnServer(OnServer, Async):
    def _connect_queue(self, options: dict[str, Any]) -> Any:
        self.thread = LoopThread()
        opened = self.call(bandog.connect_async, self.server.url, clock=self.clock, **options)
        return BlockingQueue(self.thread, opened)

    def _in_loop(self, make: Any) -> Any:
        async def made() -> Any:
            return await make()

        return self.call(made)


class AsyncPsycopg(AsyncOnServer):
    def begin(self) -> None:
        self.connection = self._in_loop(lambda: psycopg.AsyncConnection.connect(self.server.url))

    def execute(self, statement: str) -> None:
        self.call(self.connection.execute, statement.encode())

    def commit(self) -> None:
        self.call(self.connection.commit)

    def roll_back(self) -> None:
        self.call(self.connection.rollback)

    def close(self) -> None:
        self.call(self.connection.close)


class AsyncPsycopgAutocommit(AsyncPsycopg):
    def begin(self) -> None:
        self.connection = self._in_loop(lambda: psycopg.AsyncConnection.connect(self.server.url, autocommit=True))
        self._block = self.connection.transaction()
        self.call(self._block.__aenter__)

    def commit(self) -> None:
        self.call(self._block.__aexit__, None, None, None)

    def roll_back(self) -> None:
        assert self.call(self._block.__aexit__, psycopg.Rollback, psycopg.Rollback(), None)


class Asyncpg(AsyncOnServer):
    def begin(self) -> None:
        self.connection = self._in_loop(lambda: asyncpg.connect(self.server.url))
        self._start()

    def _start(self) -> None:
        self._block = self.connection.transaction()
        self.call(self._block.start)

    def execute(self, statement: str) -> None:
        self.call(self.connection.execute, statement)

    def commit(self) -> None:
        self.call(self._block.commit)

    def roll_back(self) -> None:
        self.call(self._block.rollback)

    def savepoint(self) -> None:
        self._inner = self.connection.transaction()
        self.call(self._inner.start)

    def roll_back_to_savepoint(self) -> None:
        self.call(self._inner.rollback)

    def release_savepoint(self) -> None:
        self.call(self._inner.commit)

    def close(self) -> None:
        self.call(self.connection.close)


class AsyncpgPool(Asyncpg):
    """A connection of a pool, which stands for the driver's."""

    def begin(self) -> None:
        self.pool = self._in_loop(lambda: asyncpg.create_pool(self.server.url, min_size=1, max_size=1))
        self.connection = self._in_loop(self.pool.acquire)
        self._start()

    def close(self) -> None:
        async def close() -> None:
            if not self.pool._closed:
                self.pool.terminate()

        self.call(close)


class AsyncSqlalchemyConnection(AsyncOnServer, callers.AsyncSqlalchemyConnection):
    driver = "asyncpg"

    def begin(self) -> None:
        self.engine = create_async_engine(self.sqlalchemy_url(self.driver))
        self.connection = self._in_loop(self.engine.connect)


class AsyncSqlalchemyPsycopg(AsyncSqlalchemyConnection):
    driver = "psycopg"


class AsyncSqlalchemySession(AsyncSqlalchemyConnection):
    def begin(self) -> None:
        super().begin()
        self.call(self.connection.close)
        self.connection = AsyncSession(self.engine)


KINDS: dict[str, type[OnServer]] = {
    "psycopg": Psycopg,
    "psycopg-autocommit": PsycopgAutocommit,
    "psycopg-sqlalchemy-connection": SqlalchemyConnection,
    "psycopg-sqlalchemy-session": SqlalchemySession,
    "psycopg-django": Django,
    "psycopg-django-debug": DjangoDebug,
    "async-psycopg": AsyncPsycopg,
    "async-psycopg-autocommit": AsyncPsycopgAutocommit,
    "async-psycopg-sqlalchemy": AsyncSqlalchemyPsycopg,
    "asyncpg": Asyncpg,
    "asyncpg-pool": AsyncpgPool,
    "asyncpg-sqlalchemy-connection": AsyncSqlalchemyConnection,
    "asyncpg-sqlalchemy-session": AsyncSqlalchemySession,
}
