"""Writing rows, for every operation alike: the twin of a part of ``rust/store/sqlite/rows.rs``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bandog.stores.clock import Instants
    from bandog.stores.connections import Connection
    from bandog.stores.driving import Steps
    from bandog.stores.transition import Counters

__all__ = ["put_ready"]


def put_ready(
    connection: Connection,
    now: Instants,
    number: int,
    place: tuple[str, str, int],
    counters: Counters,
    *,
    due_at: int | None = None,
    delay: int = 0,
    last: tuple[str | None, str | None] = (None, None),
    error: str | None = None,
) -> Steps[int]:
    """Queue a job. When it is due, in microseconds since 1970.

    Args:
        connection: the caller's.
        now: the time of the operation.
        number: of the job.
        place: its queue, lane and priority.
        counters: what it carries.
        due_at: when it may run; ``None`` for ``delay`` from now.
        delay: microseconds.
        last: the token and the report that ended its last claim.
        error: what the last attempt said.
    """
    available_at = now.wall + delay if due_at is None else due_at
    held = int(available_at > now.wall)
    yield partial(connection.change, "put_ready", number, *place, available_at, held, *counters, *last, error)
    return available_at
