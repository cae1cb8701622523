"""The caller's connection, of whatever library, as something that runs statements.

Nothing is imported of those libraries: the caller's object comes from one that is loaded already. Nothing here begins,
commits or rolls back, and no setting of the connection is changed. One class per kind of connection: ``drivers`` and
``frameworks``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from bandog.errors import InvalidJob
from bandog.stores.statements import NUMBERED, QMARK, array, prepared

__all__ = ["Connection", "name_of"]

POSTGRESQL = "postgresql"
SQLITE = "sqlite"


class Connection(ABC):
    """Runs statements on the caller's connection, in whatever transaction that is in.

    Every method returns its answer, or where ``is_async`` is true something to await for it.

    Attributes:
        name: what the object is, for messages.
        driver: the connection of the driver, below whatever the caller's object is. Known once it is open.
        database: what it is connected to, where its class says so.
        is_async: whether its answers have to be awaited.
        placeholder: how its driver writes a parameter.
    """

    database: ClassVar[str | None] = None
    is_async: ClassVar[bool] = False
    placeholder: str = QMARK

    def __init__(self, connection: Any, schema: str | None) -> None:
        """``schema`` holds the queue's tables in a PostgreSQL database; ``None`` for an SQLite file.

        Raises:
            InvalidJob: a connection to another kind of database.
        """
        self._connection = connection
        self._schema = schema
        self._dialect = "sqlite" if schema is None else "postgres"
        self.name = name_of(connection)
        self.driver = connection
        if self.database is not None:
            self.check_database(self.database)

    def query(self, name: str, *parameters: Any) -> Any:
        """The rows that a statement returns, as tuples."""
        text, order = prepared(self._dialect, name, self.placeholder, self._schema)
        return self.rows(text, self._values(parameters, order))

    def change(self, name: str, *parameters: Any) -> Any:
        """How many rows a statement changes."""
        text, order = prepared(self._dialect, name, self.placeholder, self._schema)
        return self.count(text, self._values(parameters, order))

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
        """Whether what is written is not committed by itself.

        SQLite: asked after a write, whether a transaction is open. PostgreSQL: asked before, whether one is open, or
        begins with the next statement.
        """

    def check_database(self, database: str) -> None:
        """Refuse a connection to another kind of database.

        Raises:
            InvalidJob: that it is.
        """
        if database != (SQLITE if self._schema is None else POSTGRESQL):
            queue = "an SQLite file" if self._schema is None else "a schema of a PostgreSQL database"
            self.refuse(f"is connected to {database}, and this queue is {queue}")

    def refuse(self, problem: str) -> None:
        """Say that this connection is none that can be used.

        Raises:
            InvalidJob: always.
        """
        message = f"connection: {self.name} {problem}"
        raise InvalidJob(message, field="connection")

    def _values(self, parameters: tuple[Any, ...], order: tuple[int, ...]) -> tuple[Any, ...]:
        values: tuple[Any, ...] = tuple(parameters[place] for place in order)
        if self.placeholder == NUMBERED:
            return values
        return tuple(array(value) if isinstance(value, list) else value for value in values)  # pyright: ignore[reportUnknownArgumentType] - of any values


def name_of(connection: object) -> str:
    """What an object is, for messages: its library and its class."""
    kind = type(connection)
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"
