"""The verb ``migrate``: about the tables of a store. What it does differs with the kind of store, and is found here.

A file belongs to whoever opens it: bandog makes its tables then, and never changes tables that are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bandog._cli.exits import OK, REFUSED
from bandog._cli.showing import write
from bandog._cli.verb import verb
from bandog.sql import migrations

if TYPE_CHECKING:
    from pathlib import Path

    from bandog._cli.session import Session

__all__ = ["migrate"]


@verb("migrate")
@click.option("--status", is_flag=True, help="Say whether the tables are there and current; the exit code is 1 if not.")
@click.option("--sql", is_flag=True, help="Print the statements that make the tables, and do nothing.")
@click.pass_obj
def migrate(session: Session, *, status: bool, sql: bool) -> int:
    """Make the tables of a store.

    An SQLite file needs no migration: bandog makes its tables when it first opens the file, this verb included, and
    never changes tables that are there. A file of another version is refused, with what to do.
    """
    if status and sql:
        message = "--status and --sql cannot be given together"
        raise click.UsageError(message, click.get_current_context())
    file = session.file()
    if file is None:
        return _server(session)
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


def _server(session: Session) -> int:
    """A database that is shared, and never migrated by opening it. None can be connected to yet, which it says."""
    with session.queue():
        return OK


def _print(session: Session, statements: tuple[str, ...]) -> int:
    if session.as_json:
        session.answer({"sql": statements}, [])
    else:
        write("\n".join(statements))
    return OK
