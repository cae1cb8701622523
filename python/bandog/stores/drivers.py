"""Connections of database drivers."""

from __future__ import annotations

import sys
from typing import Any

from bandog.stores.connections import POSTGRESQL, SQLITE, Connection
from bandog.stores.statements import FORMAT, NUMBERED

__all__ = ["DRIVERS", "in_psycopg_transaction"]

IDLE = 0
"""What libpq calls a connection that is in no transaction."""


class _Sqlite3(Connection):
    """``sqlite3.Connection``."""

    database = SQLITE

    def rows(self, text: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        cursor = self._connection.cursor()
        try:
            cursor.row_factory = None  # of this cursor alone, whatever the connection's is
            return _plain(cursor.execute(text, parameters).fetchall())
        finally:
            cursor.close()

    def count(self, text: str, parameters: tuple[Any, ...]) -> int:
        cursor = self._connection.cursor()
        try:
            count: int = cursor.execute(text, parameters).rowcount
            return count
        finally:
            cursor.close()

    def in_transaction(self) -> bool:
        return bool(self._connection.in_transaction)


class _Aiosqlite(Connection):
    """``aiosqlite.Connection``."""

    database = SQLITE
    is_async = True

    async def rows(self, text: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        async with self._connection.cursor() as cursor:
            cursor.row_factory = None
            await cursor.execute(text, parameters)
            return _plain(await cursor.fetchall())

    async def count(self, text: str, parameters: tuple[Any, ...]) -> int:
        async with self._connection.cursor() as cursor:
            await cursor.execute(text, parameters)
            count: int = cursor.rowcount
            return count

    async def in_transaction(self) -> bool:
        return bool(self._connection.in_transaction)


class _Psycopg(Connection):
    """``psycopg.Connection``."""

    database = POSTGRESQL
    placeholder = FORMAT

    def _cursor(self) -> Any:
        # Of its own kind, whatever the factories of the connection make.
        library = sys.modules["psycopg"]
        return library.Cursor(self._connection, row_factory=library.rows.tuple_row)

    def rows(self, text: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self._cursor() as cursor:
            rows: list[tuple[Any, ...]] = cursor.execute(text, parameters).fetchall()
            return rows

    def count(self, text: str, parameters: tuple[Any, ...]) -> int:
        with self._cursor() as cursor:
            count: int = cursor.execute(text, parameters).rowcount
            return count

    def in_transaction(self) -> bool:
        return in_psycopg_transaction(self._connection)


class _AsyncPsycopg(Connection):
    """``psycopg.AsyncConnection``."""

    database = POSTGRESQL
    is_async = True
    placeholder = FORMAT

    def _cursor(self) -> Any:
        library = sys.modules["psycopg"]
        return library.AsyncCursor(self._connection, row_factory=library.rows.tuple_row)

    async def rows(self, text: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        async with self._cursor() as cursor:
            rows: list[tuple[Any, ...]] = await (await cursor.execute(text, parameters)).fetchall()
            return rows

    async def count(self, text: str, parameters: tuple[Any, ...]) -> int:
        async with self._cursor() as cursor:
            count: int = (await cursor.execute(text, parameters)).rowcount
            return count

    async def in_transaction(self) -> bool:
        return in_psycopg_transaction(self._connection)


class _Asyncpg(Connection):
    """``asyncpg.Connection``, also of a pool."""

    database = POSTGRESQL
    is_async = True
    placeholder = NUMBERED

    async def rows(self, text: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._connection.fetch(text, *parameters)]

    async def count(self, text: str, parameters: tuple[Any, ...]) -> int:
        status: str = await self._connection.execute(text, *parameters)
        return int(status.rpartition(" ")[2])

    async def in_transaction(self) -> bool:
        # One that is closed says so itself.
        return bool(self._connection.is_closed() or self._connection.is_in_transaction())


DRIVERS: dict[str, type[Connection]] = {
    "sqlite3.Connection": _Sqlite3,
    "aiosqlite.core.Connection": _Aiosqlite,
    "psycopg.Connection": _Psycopg,
    "psycopg.AsyncConnection": _AsyncPsycopg,
    "asyncpg.connection.Connection": _Asyncpg,
    "asyncpg.pool.PoolConnectionProxy": _Asyncpg,
}
"""By module and class of the caller's connection."""


def in_psycopg_transaction(connection: Any) -> bool:
    """Whether a connection of psycopg is in a transaction, or will be with its next statement."""
    return not connection.autocommit or connection.info.transaction_status != IDLE


def _plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Text as ``str``: a connection may hand it out as bytes."""
    return [
        tuple(value.decode() if isinstance(value, (bytes, bytearray)) else value for value in row)
        if any(isinstance(value, (bytes, bytearray)) for value in row)
        else row
        for row in rows
    ]
