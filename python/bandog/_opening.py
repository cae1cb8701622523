"""Opening a store, for both faces of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandog._native import core
from bandog._url import PostgresLocation, locate
from bandog.errors import InvalidJob

if TYPE_CHECKING:
    import os

    from bandog._operations import Seconds
    from bandog.testing import FakeClock

__all__ = ["DEFAULT_PAYLOAD_LIMIT", "DEFAULT_SCHEMA", "open_engine"]

DEFAULT_SCHEMA = "bandog"
"""Where the tables are in a PostgreSQL database."""

DEFAULT_PAYLOAD_LIMIT = 1 << 20
"""Bytes of canonical JSON (seed 2)."""


def open_engine(
    url: str | os.PathLike[str],
    synchronous: str | None,
    busy_timeout: Seconds | None,
    payload_limit: int,
    allow_network_filesystem: bool,  # noqa: FBT001
    clock: FakeClock | None,
    schema: str | None,
) -> tuple[core.Engine, str, str | None]:
    """The engine on what ``url`` names, a name for it without secrets, and the schema that it has in PostgreSQL."""
    location = locate(url)
    if isinstance(location, PostgresLocation):
        for field, given in (
            ("synchronous", synchronous is not None),
            ("allow_network_filesystem", allow_network_filesystem),
        ):
            if given:
                message = f"{field}: is about SQLite files, and has no meaning for PostgreSQL"
                raise InvalidJob(message, field=field)
        schema = DEFAULT_SCHEMA if schema is None else schema
        engine, name = core.Engine.open_postgres(
            location.url,
            schema=schema,
            busy_timeout=5.0 if busy_timeout is None else busy_timeout,
            payload_limit=payload_limit,
            clock=_native_clock(clock),
        )
        return engine, name, schema
    if schema is not None:
        message = "schema: is about PostgreSQL; an SQLite file has none"
        raise InvalidJob(message, field="schema")
    if synchronous is None:
        synchronous = location.options.get("synchronous", "full")
    if busy_timeout is None:
        try:
            busy_timeout = float(location.options.get("busy_timeout", "5"))
        except ValueError:
            message = "url: busy_timeout must be a number of seconds"
            raise InvalidJob(message, field="url") from None
    engine = core.Engine.open_sqlite(
        location.path,
        synchronous=synchronous,
        busy_timeout=busy_timeout,
        allow_network_filesystem=allow_network_filesystem,
        payload_limit=payload_limit,
        clock=_native_clock(clock),
    )
    return engine, str(location.path), None


def _native_clock(clock: FakeClock | None) -> core.FakeClock | None:
    if clock is None:
        return None
    native = getattr(clock, "native", None)
    if not isinstance(native, core.FakeClock):
        message = f"clock: must be a bandog.testing.FakeClock or None, not {type(clock).__name__}"
        raise InvalidJob(message, field="clock")
    return native
