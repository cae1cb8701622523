"""The verbs ``migrate`` and ``grants``: about the tables of a store. What they do differs with the kind of store.

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
from bandog.migrating import uninstall as uninstall_server
from bandog.sql import KINDS, in_schema, migrations
from bandog.sql import grants as grants_of
from bandog.sql import uninstall as uninstall_statements

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bandog._cli.session import Session

__all__ = ["grants", "migrate"]


@verb("migrate")
@click.option("--status", is_flag=True, help="Say whether the tables are there and current; the exit code is 1 if not.")
@click.option("--sql", is_flag=True, help="Print the statements, and do nothing.")
@click.option("--uninstall", is_flag=True, help="Remove the tables of a PostgreSQL schema, with all jobs; needs --yes.")
@click.option("--yes", is_flag=True, help="Yes, remove them.")
@click.pass_obj
def migrate(session: Session, *, status: bool, sql: bool, uninstall: bool, yes: bool) -> int:
    """Make the tables of a store, or bring them to this version.

    A PostgreSQL schema is made where it is missing, and migrated in one transaction; several calls at once come one
    after the other. An SQLite file needs no migration: bandog makes its tables when it first opens the file, this verb
    included, and never changes tables that are there. A file of another version is refused, with what to do.

    Uninstalling removes what this verb made, and the schema if nothing else is in it. Stop producers and workers first.
    """
    if status and (sql or uninstall):
        message = f"--status and {'--sql' if sql else '--uninstall'} cannot be given together"
        raise click.UsageError(message, click.get_current_context())
    file = session.file()
    if uninstall:
        return _uninstall(session, file, only_print=sql, yes=yes)
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


def _uninstall(session: Session, file: Path | None, *, only_print: bool, yes: bool) -> int:
    """The other way round."""
    if file is not None:
        message = "--uninstall is about PostgreSQL: an SQLite file is deleted"
        raise click.UsageError(message, click.get_current_context())
    schema = DEFAULT_SCHEMA if session.schema is None else session.schema
    if only_print:
        return _print(session, _named("--schema", lambda: uninstall_statements(schema=schema)))
    if not yes:
        message = f"--uninstall removes every job of the schema {schema!r}: add --yes if that is meant"
        raise click.UsageError(message, click.get_current_context())
    done = uninstall_server(session.store(), schema=schema)
    kind = "uninstalled" if done.version else "missing"
    document = {"kind": kind, "version": done.version or None, "schema_is_gone": done.schema_is_gone}
    session.answer(document, [kind, str(done.version or "-"), schema])
    if done.version and not done.schema_is_gone:
        session.note(f"the schema {schema!r} stays: something else is in it, or it is another role's")
    return OK if done.version else REFUSED


@verb("grants")
@click.argument("role")
@click.option("--as", "kind", type=click.Choice(KINDS), required=True, help="What the role is to do.")
@click.pass_obj
def grants(session: Session, *, role: str, kind: str) -> int:
    """Print what the owner of a PostgreSQL schema grants to ROLE.

    An observer looks at jobs; a producer ingests them too; a worker does everything but migrating. Nothing is done, and
    no store is asked: run the statements as the schema's owner, and again after a migration.
    """
    schema = DEFAULT_SCHEMA if session.schema is None else session.schema
    return _print(session, _named("ROLE or --schema", lambda: grants_of(kind, role, schema=schema)))


def _named(argument: str, make: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
    """Statements for names that were typed here."""
    try:
        return make()
    except ValueError as error:
        message = f"{argument}: {error}"
        raise click.UsageError(message, click.get_current_context()) from error


def _print(session: Session, statements: tuple[str, ...]) -> int:
    if session.as_json:
        session.answer({"sql": statements}, [])
    else:
        write("\n".join(statements))
    return OK
