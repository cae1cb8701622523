"""Migrating the schema of a PostgreSQL database, and removing it: by hand, never by opening a queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bandog._native import core
from bandog._opening import DEFAULT_SCHEMA
from bandog._url import PostgresLocation, locate
from bandog.errors import InvalidJob

if TYPE_CHECKING:
    import os

__all__ = ["MigrationStatus", "Uninstalled", "migrate", "migration_status", "uninstall"]


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


@dataclass(frozen=True, slots=True)
class Uninstalled:
    """What uninstalling did.

    Attributes:
        version (int): the version of the tables that were removed; 0 where there were none, and nothing was done.
        schema_is_gone (bool): whether the schema is no longer there. It stays where something else is in it, or where
            it is another role's.
    """

    version: int
    schema_is_gone: bool


def uninstall(url: str | os.PathLike[str], *, schema: str = DEFAULT_SCHEMA) -> Uninstalled:
    """Remove everything that :func:`migrate` made, all jobs included, and the schema if nothing else is in it.

    All in one transaction, and nothing that others made: where something of theirs depends on our tables, that is an
    error. Stop producers and workers before. The same statements are in :func:`bandog.sql.uninstall` for other tools.

    Args:
        url: ``postgresql://…``, as for :func:`bandog.connect`, of the role that owns the schema.
        schema: the schema. Default ``"bandog"``.

    Raises:
        CannotOpen: the server cannot be reached, or refuses.
        SchemaMismatch: the tables are newer than this bandog knows. Nothing was changed.
        StoreBusy: tables are in use, and stayed so. Nothing was changed.
        StoreFailed: the server refused. Nothing was changed.
        InvalidJob: an argument that is not allowed, an SQLite file among them: delete the file.
    """
    return Uninstalled(*core.uninstall_postgres(_server(url), schema))


def _server(url: str | os.PathLike[str]) -> str:
    location = locate(url)
    if not isinstance(location, PostgresLocation):
        message = "url: only PostgreSQL is migrated by hand; an SQLite file gets its tables when it is opened"
        raise InvalidJob(message, field="url")
    return location.url
