"""What is so on PostgreSQL alone: databases, schemas and sessions of all kinds. On the server's own clock."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import tls_server
from fix_postgres import in_database

# Test folders are no packages, and this one may be collected without the others.
sys.path[:0] = [str(Path(__file__).parent.parent / folder) for folder in ("crash", "worker", "worker_process")]

from journal import Journal, Running
from processes import Child, nursery
from proxy import Proxy

import bandog

_numbers = itertools.count(1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of encryption where no server can encrypt, unless it is asked for (see ``tls_server``)."""
    if tls_server.binaries() is not None:
        return
    left_out = [item for item in items if item.path.name == "test_tls.py"]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


class Database:
    """An empty database of a test, with a schema where ``migrate`` was called."""

    def __init__(self, url: str, name: str) -> None:
        self.url = url
        self.name = name
        self._queues: list[bandog.Queue] = []

    def migrate(self, schema: str = "bandog") -> None:
        bandog.migrate(self.url, schema=schema)

    def queue(self, **options: Any) -> bandog.Queue:
        """A queue, closed at the end of the test."""
        queue = bandog.connect(options.pop("url", self.url), **options)
        self._queues.append(queue)
        return queue

    def connection(self) -> psycopg.Connection[Any]:
        """A connection in autocommit mode."""
        return psycopg.connect(self.url, autocommit=True)

    def execute(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Run SQL on a connection and in a transaction of its own."""
        with closing(self.connection()) as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def holding(self, table: str, job_id: str) -> Iterator[None]:
        """A row of a job stays locked, as by a caller's open transaction."""
        with closing(self.connection()) as connection, connection.transaction(force_rollback=True):
            row = f"SELECT 1 FROM bandog.{table} JOIN bandog.job USING (number) WHERE job_id = %s FOR UPDATE OF {table}"  # noqa: S608
            assert connection.execute(row.encode(), (job_id,)).fetchall() == [(1,)]
            yield

    def close(self) -> None:
        for queue in self._queues:
            queue.close()


@pytest.fixture
def empty(postgres_url: str) -> Iterator[Database]:
    """A database of the test's own, without our tables."""
    name = f"bandog_alone_{next(_numbers)}"
    with closing(psycopg.connect(postgres_url, autocommit=True)) as server:
        server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        server.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'".encode())
        database = Database(in_database(postgres_url, name), name)
        yield database
        database.close()
        server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def database(empty: Database) -> Database:
    """The same, with our tables."""
    empty.migrate()
    return empty


@pytest.fixture
def queue(database: Database) -> bandog.Queue:
    return database.queue()


@pytest.fixture
def backends(database: Database) -> Callable[[], list[int]]:
    """The server's processes for our links."""
    return lambda: [
        pid
        for (pid,) in database.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'bandog'"
        )
    ]


@pytest.fixture
def proxy(database: Database) -> Iterator[Proxy]:
    """A way to the test's database that can be broken."""
    with Proxy(database.url) as proxy:
        yield proxy


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Start a script of this folder, or of the one of worker processes; none outlives the test."""
    here = Path(__file__).parent

    def find(name: str) -> Path:
        return next(path for path in (here / name, here.parent / "worker_process" / name) if path.exists())

    with nursery() as begin:
        yield lambda name, *arguments: begin(find(name), *arguments)


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """What executors in other processes write down."""
    journal = Journal(tmp_path / "journal")
    monkeypatch.setenv("BANDOG_TEST_JOURNAL", str(journal.path))
    return journal


@pytest.fixture
def run_worker(start: Callable[..., Child], journal: Journal) -> Callable[..., Running]:
    """Start a worker process on a URL, as `run_worker(url, how, **options)`, and wait until it runs."""
    return lambda url, how, **options: Running(start, url, how, options, journal)
