"""The caller's connection, of whatever library, as something that runs statements.

Nothing is imported of those libraries: the caller's object comes from one that is loaded already, and is told by the
names of its classes. Nothing here begins, commits or rolls back, and no setting of the connection is changed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from bandog.errors import InvalidJob
from bandog.stores.statements import FORMAT, QMARK, prepared

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Connection", "adapt"]

SUPPORTED = (
    "a connection to the queue's SQLite file of sqlite3, aiosqlite, SQLAlchemy (Connection, Session, AsyncConnection, "
    "AsyncSession) or Django"
)


class Connection(ABC):
    """Runs statements on the caller's connection, in whatever transaction that is in.

    Every method returns its answer, or where ``is_async`` is true something to await for it.

    Attributes:
        name: what the object is, for messages.
        dialect: the folder of its statements.
        is_async: whether its answers have to be awaited.
        placeholder: how its driver writes a parameter.
    """

    name: str
    dialect: str = "sqlite"
    is_async: ClassVar[bool] = False
    placeholder: ClassVar[str] = QMARK

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.name = _name_of(connection)

    def query(self, name: str, *parameters: Any) -> Any:
        """The rows that a statement returns, as tuples."""
        text, order = prepared(self.dialect, name, self.placeholder)
        return self.rows(text, tuple(parameters[place] for place in order))

    def change(self, name: str, *parameters: Any) -> Any:
        """How many rows a statement changes."""
        text, order = prepared(self.dialect, name, self.placeholder)
        return self.count(text, tuple(parameters[place] for place in order))

    def open(self) -> Any:
        """Find the connection behind the caller's object, which a session has to be asked for."""
        return None

    @abstractmethod
    def rows(self, text: str, parameters: tuple[Any, ...]) -> Any:
        """The rows that a text returns."""

    @abstractmethod
    def count(self, text: str, parameters: tuple[Any, ...]) -> Any:
        """How many rows a text changes."""

    @abstractmethod
    def in_transaction(self) -> Any:
        """Whether a transaction is open, so that what was written is not committed yet."""


class _Sqlite3(Connection):
    """``sqlite3.Connection``."""

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


class _Sqlalchemy(Connection):
    """SQLAlchemy's ``Connection``, or the one of a ``Session``."""

    def open(self) -> None:
        if not hasattr(self._connection, "exec_driver_sql"):
            self._connection = self._connection.connection()
        _refuse_other_databases(self.name, self._connection.dialect.name)

    def rows(self, text: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._connection.exec_driver_sql(text, parameters).all()]

    def count(self, text: str, parameters: tuple[Any, ...]) -> int:
        count: int = self._connection.exec_driver_sql(text, parameters).rowcount
        return count

    def in_transaction(self) -> bool:
        return bool(self._connection.connection.driver_connection.in_transaction)


class _AsyncSqlalchemy(Connection):
    """SQLAlchemy's ``AsyncConnection``, or the one of an ``AsyncSession``."""

    is_async = True

    async def open(self) -> None:
        if not hasattr(self._connection, "exec_driver_sql"):
            self._connection = await self._connection.connection()
        _refuse_other_databases(self.name, self._connection.dialect.name)

    async def rows(self, text: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in (await self._connection.exec_driver_sql(text, parameters)).all()]

    async def count(self, text: str, parameters: tuple[Any, ...]) -> int:
        count: int = (await self._connection.exec_driver_sql(text, parameters)).rowcount
        return count

    async def in_transaction(self) -> bool:
        raw = await self._connection.get_raw_connection()
        return bool(raw.driver_connection.in_transaction)


class _Django(Connection):
    """Django's wrapper of a connection, or ``django.db.connection``, which stands for one."""

    placeholder = FORMAT

    def open(self) -> None:
        _refuse_other_databases(self.name, self._connection.vendor)

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
        return bool(self._connection.connection.in_transaction)


ADAPTERS: dict[str, Callable[[Any], Connection]] = {
    "sqlite3.Connection": _Sqlite3,
    "aiosqlite.core.Connection": _Aiosqlite,
    "sqlalchemy.engine.base.Connection": _Sqlalchemy,
    "sqlalchemy.orm.session.Session": _Sqlalchemy,
    "sqlalchemy.orm.scoping.scoped_session": _Sqlalchemy,
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": _AsyncSqlalchemy,
    "sqlalchemy.ext.asyncio.session.AsyncSession": _AsyncSqlalchemy,
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": _AsyncSqlalchemy,
    "django.db.backends.base.base.BaseDatabaseWrapper": _Django,
    "django.utils.connection.ConnectionProxy": _Django,
}


def adapt(connection: Any) -> Connection:
    """What runs statements on the caller's connection.

    Raises:
        InvalidJob: an object that is none of those supported.
    """
    for base in type(connection).__mro__:
        adapter = ADAPTERS.get(f"{base.__module__}.{base.__qualname__}")
        if adapter is not None:
            return adapter(connection)
    message = f"connection: must be {SUPPORTED}, not {_name_of(connection)}"
    raise InvalidJob(message, field="connection")


def _name_of(connection: object) -> str:
    kind = type(connection)
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"


def _refuse_other_databases(name: str, database: str) -> None:
    if database != "sqlite":
        message = f"connection: {name} is connected to {database}, and this queue is an SQLite file"
        raise InvalidJob(message, field="connection")


def _plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Text as ``str``: a connection may hand it out as bytes."""
    return [
        tuple(value.decode() if isinstance(value, (bytes, bytearray)) else value for value in row)
        if any(isinstance(value, (bytes, bytearray)) for value in row)
        else row
        for row in rows
    ]
