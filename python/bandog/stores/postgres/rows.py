"""Rows of the statements, as records and times."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from bandog.stores.records import JobRecord, instant, microseconds, record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bandog.stores.connections import Connection
    from bandog.stores.driving import Steps

__all__ = ["LARGEST_STATEMENT", "moment", "read"]

LARGEST_STATEMENT = 5_000
"""How many jobs one statement takes, as in ``rust/store/postgres/ingest.rs``."""


def moment(value: Any) -> int | None:
    """A time as microseconds since 1970; ``None`` where the connection makes something else of times.

    Its owner may have asked for times without a zone, for text, or for types of other libraries.
    """
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return microseconds(value)
    return None


def read(connection: Connection, job_ids: Sequence[str]) -> Steps[dict[str, JobRecord]]:
    """What is known of jobs, by id; those that are not there are left out."""
    rows: list[tuple[Any, ...]] = yield partial(connection.query, "read_plain", list(job_ids))
    records = (record(row, instant, instant) for row in rows)
    return {found.job_id: found for found in records}
