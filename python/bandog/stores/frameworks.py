"""Connections of frameworks that lie on a driver's. Statements go through them, so that their transactions, their logs
and their errors are what they are for the caller's own.
"""

from __future__ import annotations

from typing import Any

from bandog.stores.connections import POSTGRESQL, Connection
from bandog.stores.drivers import in_psycopg_transaction
from bandog.stores.statements import FORMAT, NUMBERED

__all__ = ["FRAMEWORKS"]

PLACEHOLDERS = {"psycopg": FORMAT, "asyncpg": NUMBERED}
"""Per driver for PostgreSQL."""


class _OnSqlalchemy(Connection):
    """What the two have in common."""

    def _look(self, dialect: Any) -> None:
        self.check_database(dialect.name)
        if dialect.name == POSTGRESQL:
            if dialect.driver not in PLACEHOLDERS:
                self.refuse(f"uses {dialect.driver}, which is not supported; use psycopg (version 3) or asyncpg")
            self.placeholder = PLACEHOLDERS[dialect.driver]


class _Sqlalchemy(_OnSqlalchemy):
    """SQLAlchemy's ``Connection``, or the one of a ``Session``."""

    def open(self) -> None:
        if not hasattr(self._connection, "exec_driver_sql"):
            self._connection = self._connection.connection()
        self._look(self._connection.dialect)
        self.driver = self._connection.connection.driver_connection

    def rows(self, text: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._connection.exec_driver_sql(text, parameters).all()]

    def count(self, text: str, parameters: tuple[Any, ...]) -> int:
        count: int = self._connection.exec_driver_sql(text, parameters).rowcount
        return count

    def in_transaction(self) -> bool:
        if self.placeholder == FORMAT:
            return in_psycopg_transaction(self.driver)
        return bool(self.driver.in_transaction)


class _AsyncSqlalchemy(_OnSqlalchemy):
    """SQLAlchemy's ``AsyncConnection``, or the one of an ``AsyncSession``."""

    is_async = True

    async def open(self) -> None:
        if not hasattr(self._connection, "exec_driver_sql"):
            self._connection = await self._connection.connection()
        self._look(self._connection.dialect)
        self.driver = (await self._connection.get_raw_connection()).driver_connection

    async def rows(self, text: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in (await self._connection.exec_driver_sql(text, parameters)).all()]

    async def count(self, text: str, parameters: tuple[Any, ...]) -> int:
        count: int = (await self._connection.exec_driver_sql(text, parameters)).rowcount
        return count

    async def in_transaction(self) -> bool:
        if self.placeholder == FORMAT:
            return in_psycopg_transaction(self.driver)
        if self.placeholder == NUMBERED:
            if not self.driver.is_in_transaction():
                await self.rows("SELECT 1", ())  # SQLAlchemy begins its transaction with the first statement
            return bool(self.driver.is_in_transaction())
        return bool(self.driver.in_transaction)


class _Django(Connection):
    """Django's wrapper of a connection, or ``django.db.connection``, which stands for one."""

    placeholder = FORMAT

    def open(self) -> None:
        self.check_database(self._connection.vendor)
        self._connection.ensure_connection()
        self.driver = self._connection.connection
        if self._schema is not None and type(self.driver).__module__.partition(".")[0] != "psycopg":
            self.refuse("uses psycopg2, which is not supported; install psycopg (version 3)")

    def rows(self, text: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(text, parameters or None)
            return [tuple(row) for row in cursor.fetchall()]

    def count(self, text: str, parameters: tuple[Any, ...]) -> int:
        with self._connection.cursor() as cursor:
            cursor.execute(text, parameters or None)
            count: int = cursor.rowcount
            return count

    def in_transaction(self) -> bool:
        if self._schema is not None:
            return in_psycopg_transaction(self.driver)
        return bool(self.driver.in_transaction)


FRAMEWORKS: dict[str, type[Connection]] = {
    "sqlalchemy.engine.base.Connection": _Sqlalchemy,
    "sqlalchemy.orm.session.Session": _Sqlalchemy,
    "sqlalchemy.orm.scoping.scoped_session": _Sqlalchemy,
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": _AsyncSqlalchemy,
    "sqlalchemy.ext.asyncio.session.AsyncSession": _AsyncSqlalchemy,
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": _AsyncSqlalchemy,
    "django.db.backends.base.base.BaseDatabaseWrapper": _Django,
    "django.utils.connection.ConnectionProxy": _Django,
}
"""By module and class of the caller's connection."""
