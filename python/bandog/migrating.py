"""Migrating the schema of a PostgreSQL database: by hand, never by opening a queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bandog._native import core
from bandog._opening import DEFAULT_SCHEMA
from bandog._url import PostgresLocation, locate
from bandog.errors import InvalidJob

if TYPE_CHECKING:
    import os

__all__ = ["MigrationStatus", "migrate", "migration_status"]


@dataclass(frozen=True, slots=True)
class MigrationStatus:
    """Where a schema stands.

    Attributes:
        version (int): the version of its tables; 0 where there are none. After :func:`migrate`, the one before it.
        newest (int): the version that this bandog works on. After :func:`migrate`, the one that is there now.
    """

    version: int
    newest: int

    @property
    def is_current(self) -> bool:
        """Whether there was nothing to do."""
        return self.version == self.newest


def migrate(url: str | os.PathLike[str], *, schema: str = DEFAULT_SCHEMA) -> MigrationStatus:
    """Bring a schema to the version of this bandog, and make it where it is missing.

    All in one transaction. Several calls at once come one after the other, and the later ones find nothing to do. The
    same statements are in :func:`bandog.sql.migrations` for other tools.

    Args:
        url: ``postgresql://…``, as for :func:`bandog.connect`.
        schema: the schema to migrate. Default ``"bandog"``.

    Raises:
        CannotOpen: the server cannot be reached, or refuses.
        SchemaMismatch: the tables are newer than this bandog knows. Nothing was changed.
        StoreFailed: the server refused a statement. Nothing was changed.
        InvalidJob: an argument that is not allowed, an SQLite file among them: opening one makes its tables.
    """
    return MigrationStatus(*core.migrate_postgres(_server(url), schema))


def migration_status(url: str | os.PathLike[str], *, schema: str = DEFAULT_SCHEMA) -> MigrationStatus:
    """Where a schema stands. Nothing is changed. Arguments and errors are those of :func:`migrate`."""
    return MigrationStatus(*core.migration_status_postgres(_server(url), schema))


def _server(url: str | os.PathLike[str]) -> str:
    location = locate(url)
    if not isinstance(location, PostgresLocation):
        message = "url: only PostgreSQL is migrated by hand; an SQLite file gets its tables when it is opened"
        raise InvalidJob(message, field="url")
    return location.url
