"""Callers with a connection of their own to the queue's file, of every library and mode that is supported.

All have the same methods, so that one test runs with each. Those of coroutines live on an event loop in a thread of
its own, with an ``AsyncQueue`` behind :mod:`face`.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiosqlite
import django.conf
import sqlalchemy as sa
from django.db import connections, transaction
from face import BlockingQueue, LoopThread
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import bandog

INSERT = "INSERT INTO business (word) VALUES ('{}')"

django.conf.settings.configure(
    DATABASES={
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
        "server": {"ENGINE": "django.db.backends.postgresql", "NAME": "of the test"},
    },
    USE_TZ=True,
)
django.setup()


class Caller:
    """A caller in a transaction, and a queue of the face that goes with its connection.

    ``connection`` is what is passed to the queue.
    """

    connection: Any
    is_async = False

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        with sqlite3.connect(path) as setting_up:
            setting_up.execute("CREATE TABLE IF NOT EXISTS business (word TEXT NOT NULL UNIQUE)")
        setting_up.close()
        self._undo = ExitStack()
        self.queue = self._connect_queue(options)
        self.begin()

    def _connect_queue(self, options: dict[str, Any]) -> Any:
        return self._undo.enter_context(bandog.connect(self.path, **options))

    def begin(self) -> None:
        """Open a connection, and a transaction where its mode does not by itself."""
        raise NotImplementedError

    def write(self, word: str) -> None:
        """The caller's own work."""
        self.execute(INSERT.format(word))

    def execute(self, statement: str) -> None:
        raise NotImplementedError

    def commit(self) -> None:
        raise NotImplementedError

    def roll_back(self) -> None:
        raise NotImplementedError

    def savepoint(self) -> None:
        self.execute("SAVEPOINT inner_one")

    def roll_back_to_savepoint(self) -> None:
        self.execute("ROLLBACK TO inner_one")
        self.execute("RELEASE inner_one")

    def release_savepoint(self) -> None:
        self.execute("RELEASE inner_one")

    def close(self) -> None:
        """Let go of the connection, whatever its transaction is in."""
        raise NotImplementedError

    def expire(self) -> None:
        """In the transaction, every lease ends: its row as it is then."""
        self.execute("UPDATE bandog_lease SET lease_until = 1")

    def stop(self) -> None:
        """Close everything."""
        self.close()
        self._undo.close()

    # What is there for everybody else

    def words(self) -> list[str]:
        return [word for (word,) in self.select("SELECT word FROM business ORDER BY word")]

    def jobs(self) -> list[str]:
        return [job_id for (job_id,) in self.select("SELECT job_id FROM bandog_job ORDER BY job_id")]

    def select(self, statement: str) -> list[tuple[Any, ...]]:
        reader = sqlite3.connect(self.path)
        try:
            return reader.execute(statement).fetchall()
        finally:
            reader.close()


class Sqlite3(Caller):
    options: dict[str, Any] = {}  # noqa: RUF012 - read only

    def begin(self) -> None:
        # The threads of a runtime may be the ones that use it.
        self.connection = sqlite3.connect(self.path, timeout=20, check_same_thread=False, **self.options)

    def execute(self, statement: str) -> None:
        self.connection.execute(statement)

    def commit(self) -> None:
        self.connection.commit()

    def roll_back(self) -> None:
        self.connection.rollback()

    def close(self) -> None:
        self.connection.close()


class Sqlite3Immediate(Sqlite3):
    options = {"isolation_level": "IMMEDIATE"}  # noqa: RUF012


class Sqlite3Exclusive(Sqlite3):
    options = {"isolation_level": "EXCLUSIVE"}  # noqa: RUF012


class Sqlite3ByHand(Sqlite3):
    """Without implicit transactions: the caller says BEGIN, COMMIT and ROLLBACK."""

    options = {"isolation_level": None}  # noqa: RUF012

    def begin(self) -> None:
        super().begin()
        self.execute("BEGIN")

    def commit(self) -> None:
        self.execute("COMMIT")

    def roll_back(self) -> None:
        self.execute("ROLLBACK")


class Sqlite3AutocommitOff(Sqlite3):
    """Python 3.12: always in a transaction."""

    options = {"autocommit": False}  # noqa: RUF012


class Sqlite3AutocommitOn(Sqlite3ByHand):
    """Python 3.12: never in one, unless the caller says BEGIN."""

    options = {"autocommit": True}  # noqa: RUF012


class SqlalchemyConnection(Caller):
    def begin(self) -> None:
        self.engine = sa.create_engine(f"sqlite:///{self.path}")
        self._undo.callback(self.engine.dispose)
        self.connection = self.engine.connect()

    def execute(self, statement: str) -> None:
        self.connection.execute(sa.text(statement))

    def commit(self) -> None:
        self.connection.commit()

    def roll_back(self) -> None:
        self.connection.rollback()

    def savepoint(self) -> None:
        self.execute("SELECT 1")
        self.nested = self.connection.begin_nested()

    def roll_back_to_savepoint(self) -> None:
        self.nested.rollback()

    def release_savepoint(self) -> None:
        self.nested.commit()

    def close(self) -> None:
        self.connection.close()


class SqlalchemyBegin(SqlalchemyConnection):
    """With the listeners that SQLAlchemy's documentation gives for SQLite's own transactions."""

    def begin(self) -> None:
        self.engine = sa.create_engine(f"sqlite:///{self.path}")
        self._undo.callback(self.engine.dispose)

        @sa.event.listens_for(self.engine, "connect")
        def no_implicit_ones(connection: Any, _record: Any) -> None:
            connection.isolation_level = None

        @sa.event.listens_for(self.engine, "begin")
        def begin(connection: Any) -> None:
            connection.exec_driver_sql("BEGIN")

        self.connection = self.engine.connect()


class SqlalchemySession(SqlalchemyConnection):
    def begin(self) -> None:
        super().begin()
        self.connection.close()
        self.connection = Session(self.engine)


class SqlalchemyScopedSession(SqlalchemyConnection):
    def begin(self) -> None:
        super().begin()
        self.connection.close()
        self.connection = scoped_session(sessionmaker(self.engine))


class Django(Caller):
    alias = "default"

    def settings(self) -> dict[str, Any]:
        return {"NAME": str(self.path)}

    def begin(self) -> None:
        self.connection = connections[self.alias]
        self.connection.close()
        self.connection.settings_dict.update(self.settings())
        self._atomic = transaction.atomic(self.alias)
        self._atomic.__enter__()
        self._is_open = True

    def execute(self, statement: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)

    def commit(self) -> None:
        self._is_open = False
        self._atomic.__exit__(None, None, None)

    def roll_back(self) -> None:
        self._is_open = False
        transaction.set_rollback(True, self.alias)
        self._atomic.__exit__(None, None, None)

    def savepoint(self) -> None:
        self._inner = transaction.atomic(self.alias)
        self._inner.__enter__()

    def roll_back_to_savepoint(self) -> None:
        error = ValueError("the inner part fails")
        self._inner.__exit__(ValueError, error, None)

    def release_savepoint(self) -> None:
        self._inner.__exit__(None, None, None)

    def close(self) -> None:
        self.connection.close()
        if self._is_open:
            self._is_open = False
            # Django notices that the connection is gone, and forgets the transaction.
            self._atomic.__exit__(ValueError, ValueError("closed"), None)


class DjangoDebug(Django):
    """With Django's log of queries, which formats their parameters."""

    def begin(self) -> None:
        connections["default"].force_debug_cursor = True
        super().begin()

    def stop(self) -> None:
        super().stop()
        connections["default"].force_debug_cursor = False


class DjangoProxy(Django):
    """``django.db.connection``, which stands for the connection of the thread."""

    def begin(self) -> None:
        super().begin()
        self.connection = django.db.connection


class Async(Caller):
    is_async = True

    def _connect_queue(self, options: dict[str, Any]) -> Any:
        self.thread = LoopThread()
        queue: Any = BlockingQueue(self.thread, self.call(bandog.connect_async, self.path, **options))
        return queue

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        return self.thread.call(function, *arguments, **options)

    def stop(self) -> None:
        super().stop()
        self.queue.close()
        self.thread.stop()


class Aiosqlite(Async):
    def begin(self) -> None:
        async def connect() -> aiosqlite.Connection:
            return await aiosqlite.connect(self.path)

        self.connection = self.call(connect)

    def execute(self, statement: str) -> None:
        self.call(self.connection.execute, statement)

    def commit(self) -> None:
        self.call(self.connection.commit)

    def roll_back(self) -> None:
        self.call(self.connection.rollback)

    def close(self) -> None:
        self.call(self.connection.close)


class AsyncSqlalchemyConnection(Async):
    def begin(self) -> None:
        self.engine = create_async_engine(f"sqlite+aiosqlite:///{self.path}")

        async def connect() -> Any:
            return await self.engine.connect()

        self.connection = self.call(connect)

    def execute(self, statement: str) -> None:
        self.call(self.connection.execute, sa.text(statement))

    def commit(self) -> None:
        self.call(self.connection.commit)

    def roll_back(self) -> None:
        self.call(self.connection.rollback)

    def savepoint(self) -> None:
        self.execute("SELECT 1")

        async def begin() -> Any:
            return await self.connection.begin_nested()

        self.nested = self.call(begin)

    def roll_back_to_savepoint(self) -> None:
        self.call(self.nested.rollback)

    def release_savepoint(self) -> None:
        self.call(self.nested.commit)

    def close(self) -> None:
        self.call(self.connection.close)

    def stop(self) -> None:
        self.close()
        self.call(self.engine.dispose)
        super().stop()


class AsyncSqlalchemySession(AsyncSqlalchemyConnection):
    def begin(self) -> None:
        super().begin()
        self.call(self.connection.close)
        self.connection = AsyncSession(self.engine)


class AsyncSqlalchemyScopedSession(AsyncSqlalchemyConnection):
    def begin(self) -> None:
        super().begin()
        self.call(self.connection.close)
        self.connection = async_scoped_session(async_sessionmaker(self.engine), scopefunc=lambda: None)


KINDS: dict[str, type[Caller]] = {
    "sqlite3": Sqlite3,
    "sqlite3-immediate": Sqlite3Immediate,
    "sqlite3-exclusive": Sqlite3Exclusive,
    "sqlite3-by-hand": Sqlite3ByHand,
    "sqlalchemy-connection": SqlalchemyConnection,
    "sqlalchemy-begin": SqlalchemyBegin,
    "sqlalchemy-session": SqlalchemySession,
    "sqlalchemy-scoped-session": SqlalchemyScopedSession,
    "django": Django,
    "django-debug": DjangoDebug,
    "django-proxy": DjangoProxy,
    "aiosqlite": Aiosqlite,
    "async-sqlalchemy-connection": AsyncSqlalchemyConnection,
    "async-sqlalchemy-session": AsyncSqlalchemySession,
    "async-sqlalchemy-scoped-session": AsyncSqlalchemyScopedSession,
}
if sys.version_info >= (3, 12):  # the mode is not there before
    KINDS |= {"sqlite3-autocommit-off": Sqlite3AutocommitOff, "sqlite3-autocommit-on": Sqlite3AutocommitOn}
