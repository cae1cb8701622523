"""What every operation does first: see that the connection is to the queue's file and in a transaction, take the write
lock, and read the clocks under it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bandog.errors import InvalidJob
from bandog.stores import clock
from bandog.stores.elsewhere import identity

if TYPE_CHECKING:
    from bandog.stores.clock import Instants
    from bandog.stores.connections import Connection
    from bandog.stores.driving import Steps
    from bandog.stores.elsewhere import Home

__all__ = ["begin"]

TOLERANCE = 1_000_000
"""How far the wall clock must have moved against the uptime to count as set, as in ``rust/store/sqlite/steps.rs``."""


def begin(connection: Connection, home: Home) -> Steps[Instants]:
    """Take the write lock in the caller's transaction. The time that the operation happens at."""
    yield from _check_file(connection, home)
    # No job has this number. The lock comes with the first write, and whatever is read before it may be out of date by
    # then: sqlite3 opens its transactions with the first write too.
    yield partial(connection.change, "take_ready", 0)
    if not (yield connection.in_transaction):
        message = (
            f"connection: {connection.name} is not in a transaction, so that each statement would be committed by "
            "itself; nothing was changed. Begin a transaction first, and commit it after your own changes"
        )
        raise InvalidJob(message, field="connection")
    ((_, noted),) = yield partial(connection.query, "clock")
    now = clock.now(home.fake_clock, noted)
    offset = now.wall - now.uptime
    if abs(offset - noted) > TOLERANCE:
        if offset < noted:
            yield partial(connection.change, "recover_clock", now.wall)
        yield partial(connection.change, "clock_offset_set", offset)
    return now


def _check_file(connection: Connection, home: Home) -> Steps[None]:
    """Refuse a connection on which the names of the tables mean those of another file."""
    databases: list[tuple[Any, ...]] = yield partial(connection.rows, "PRAGMA database_list", ())
    for _, schema, path in databases:
        if path and home.file is not None and identity(path) == home.file:
            if schema == "main":
                return
            tables: list[tuple[Any, ...]] = yield partial(connection.rows, "PRAGMA table_list(bandog_job)", ())
            if [row[0] for row in tables] == [schema]:
                return
    main = next((path for _, schema, path in databases if schema == "main"), "")
    message = (
        f"connection: {connection.name} is connected to {main or 'a database in memory'}, and this queue is "
        f"{home.path}; nothing was changed. Pass a connection to the queue's own file"
    )
    raise InvalidJob(message, field="connection")
