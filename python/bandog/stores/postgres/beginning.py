"""What every operation does first: see that the connection leads to the queue's schema, and is in a transaction."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bandog.stores.connections import Connection
    from bandog.stores.driving import Steps
    from bandog.stores.elsewhere import Schema

__all__ = ["begin"]


def begin(connection: Connection, home: Schema) -> Steps[None]:
    """Refuse a connection that is not to the queue's schema, or in no transaction."""
    if not (yield connection.in_transaction):
        connection.refuse(
            "is not in a transaction, so that each statement would be committed by itself; nothing was changed. Begin "
            "a transaction first, and commit it after your own changes"
        )
    if connection.driver in home.same:
        return
    found: list[tuple[Any, ...]] = yield partial(connection.query, "schema_identity", home.schema)
    there = found[0][0] if found else None
    if there is None or home.identity != there:
        # A server that took the place of another one is a new one to a queue that was opened before, too.
        home.identity = yield home.ask
    if there is None or home.identity != there:
        connection.refuse(
            f"is not connected to the database of this queue, which is the schema {home.schema!r} at {home.target}; "
            "nothing was changed. Pass a connection to the same database of the same server"
        )
    with contextlib.suppress(TypeError):  # some cannot be referred to weakly, and are asked each time
        home.same.add(connection.driver)
