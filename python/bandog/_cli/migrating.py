"""The verb ``migrate``: about the tables of a store. What it does differs with the kind of store, and is found here.

A file belongs to whoever opens it: bandog makes its tables then, and never changes tables that are there. A server is
shared: opening never migrates it, and this verb does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bandog._cli.exits import OK, REFUSED
from bandog._cli.showing import write
from bandog._cli.verb import verb
from bandog._opening import DEFAULT_SCHEMA
from bandog.migrating import migrate as migrate_server
from bandog.migrating import migration_status
from bandog.sql import in_schema, migrations

if TYPE_CHECKING:
    from pathlib import Path

    from bandog._cli.session import Session

__all__ = ["migrate"]


@verb("migrate")
@click.option("--status", is_flag=True, help="Say whether the tables are there and current; the exit code is 1 if not.")
@click.option("--sql", is_flag=True, help="Print the statements that make the tables, and do nothing.")
@click.pass_obj
def migrate(session: Session, *, status: bool, sql: bool) -> int:
    """Make the tables of a store, or bring them to this version.

    A PostgreSQL schema is made where it is missing, and migrated in one transaction; several calls at once come one
    after the other. An SQLite file needs no migration: bandog makes its tables when it first opens the file, this verb
    included, and never changes tables that are there. A file of another version is refused, with what to do.
    """
    if status and sql:
        message = "--status and --sql cannot be given together"
        raise click.UsageError(message, click.get_current_context())
    file = session.file()
    if file is None:
        return _server(session, only_look=status, only_print=sql)
    if sql:
        return _print(session, migrations("sqlite"))
    return _file(session, file, only_look=status)


def _file(session: Session, file: Path, *, only_look: bool) -> int:
    """An SQLite file: opening it does everything, and says what is wrong with it."""
    version = len(migrations("sqlite"))
    if only_look and not file.exists():
        session.answer({"kind": "missing", "version": None, "current": version}, ["missing", str(file)])
        session.note("it is made, with its tables, when it is first opened to enqueue or migrate")
        return REFUSED
    with session.queue(create=True):
        pass
    session.answer({"kind": "current", "version": version, "current": version}, ["current", str(version), str(file)])
    session.note("nothing to migrate: the tables of a file are made when bandog first opens it")
    return OK


def _server(session: Session, *, only_look: bool, only_print: bool) -> int:
    """A database that is shared."""
    schema = DEFAULT_SCHEMA if session.schema is None else session.schema
    if only_print:
        name = in_schema("bandog.", schema)[:-1]
        create = f"CREATE SCHEMA IF NOT EXISTS {name};\n"
        return _print(session, (create, *migrations("postgres", schema=schema)))
    if only_look:
        status = migration_status(session.store(), schema=schema)
        kind = "current" if status.is_current else "missing" if status.version == 0 else "other"
        version = status.version or None
        document = {"kind": kind, "version": version, "current": status.newest}
        session.answer(document, [kind, "-" if version is None else str(version), schema])
        if not status.is_current:
            session.note(f"this bandog needs version {status.newest}: run migrate without --status")
        return OK if status.is_current else REFUSED
    status = migrate_server(session.store(), schema=schema)
    kind = "current" if status.is_current else "migrated"
    session.answer(
        {"kind": kind, "version": status.newest, "current": status.newest}, [kind, str(status.newest), schema]
    )
    return OK


def _print(session: Session, statements: tuple[str, ...]) -> int:
    if session.as_json:
        session.answer({"sql": statements}, [])
    else:
        write("\n".join(statements))
    return OK
