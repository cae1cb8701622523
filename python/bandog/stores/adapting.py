"""Which class goes with the caller's connection, told by the names of its classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bandog.errors import InvalidJob
from bandog.stores.connections import name_of
from bandog.stores.drivers import DRIVERS
from bandog.stores.frameworks import FRAMEWORKS

if TYPE_CHECKING:
    from bandog.stores.connections import Connection

__all__ = ["adapt"]

SUPPORTED = (
    "a connection to the queue's own database of psycopg (version 3), asyncpg, sqlite3, aiosqlite, SQLAlchemy "
    "(Connection, Session, AsyncConnection, AsyncSession) or Django"
)

ADAPTERS = DRIVERS | FRAMEWORKS


def adapt(connection: Any, schema: str | None) -> Connection:
    """What runs statements on the caller's connection.

    Args:
        connection: the caller's.
        schema: that of the queue in a PostgreSQL database; ``None`` for an SQLite file.

    Raises:
        InvalidJob: an object that is none of those supported, or a connection to another kind of database.
    """
    for base in type(connection).__mro__:
        adapter = ADAPTERS.get(f"{base.__module__}.{base.__qualname__}")
        if adapter is not None:
            return adapter(connection, schema)
    message = f"connection: must be {SUPPORTED}, not {name_of(connection)}"
    raise InvalidJob(message, field="connection")
