"""The stores that the conformance suite runs on: SQLite files, and (:mod:`fix_postgres`) a PostgreSQL server.

A test of an operation uses the public API and the :class:`Store` below, nothing else, so that it runs unchanged on
every store and on both faces: on ``sqlite-async`` the queue is an ``AsyncQueue`` behind :mod:`face`. A test that needs
the fake clock or the file takes ``sqlite_store``, in a file named ``*_sqlite``; one that is about the synchronous face
says so with ``@pytest.mark.sync_only(reason)``.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from face import BlockingQueue, BlockingWatchdog, LoopThread
from fix_postgres import Server

import bandog
from bandog.testing import FakeClock


class Store:
    """One database, and the queues that a test has opened in it."""

    kind: str
    """The name of the parameter."""

    tolerance: timedelta
    """How far a time may be from the expected one: nothing where the clock stands still until it is moved."""

    def connect(self, **options: Any) -> bandog.Queue:
        """Open a queue, closed at the end of the test. Several share the database."""
        raise NotImplementedError

    def advance(self, seconds: float) -> None:
        """Time passes, for schedules and leases alike."""
        raise NotImplementedError

    def now(self) -> datetime:
        """The store's wall clock."""
        raise NotImplementedError

    def reopen(self, **options: Any) -> bandog.Queue:
        """Close every queue of the test and open a new one, as after the end of the process."""
        raise NotImplementedError

    def watchdog(self, queue: bandog.Queue, execute: Callable[..., Any], **options: Any) -> bandog.Watchdog:
        """A runtime of the queue's face, whose executor is a plain function."""
        return bandog.Watchdog(queue, execute, **options)

    def held(self, queue: bandog.Queue) -> int:
        """How many claims are being renewed for the runtimes of a queue."""
        return queue.engine.held()

    def is_about(self, actual: datetime | None, expected: datetime) -> bool:
        """Whether a time is the expected one, as closely as this store's clock allows."""
        return actual is not None and abs(actual - expected) <= self.tolerance


class ClockedStore(Store):
    """A database whose clock stands still until it is moved, for all its queues."""

    tolerance = timedelta(0)

    def __init__(self, url: str | Path, **options: Any) -> None:
        """``options``: what every queue is opened with, beside the clock."""
        self.url = url
        self.clock = FakeClock()
        self.options = {"clock": self.clock, **options}
        self._open: list[bandog.Queue] = []

    def connect(self, **options: Any) -> bandog.Queue:
        queue = self.open(**options)
        self._open.append(queue)
        return queue

    def open(self, **options: Any) -> bandog.Queue:
        """Open a queue that is the caller's to close, or to drop."""
        return bandog.connect(self.url, **self.options, **options)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def now(self) -> datetime:
        return self.clock.now()

    def reopen(self, **options: Any) -> bandog.Queue:
        self.close()
        return self.connect(**options)

    def close(self) -> None:
        """Close every queue."""
        while self._open:
            self._open.pop().close()

    def stop(self) -> None:
        """Close every queue, and what they ran on."""
        self.close()

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run SQL on a connection and in a transaction of its own, for what no public call shows.

        Tables have the names that they have in files, on a server too.
        """
        raise NotImplementedError


class OnLoop(ClockedStore):
    """The same, where every queue is asynchronous, on one event loop."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.thread = LoopThread()

    def open(self, **options: Any) -> Any:
        return BlockingQueue(self.thread, self.thread.call(bandog.connect_async, self.url, **self.options, **options))

    def watchdog(self, queue: Any, execute: Callable[..., Any], **options: Any) -> Any:
        return BlockingWatchdog(queue, execute, **options)

    def stop(self) -> None:
        super().stop()
        self.thread.stop()


class SqliteStore(ClockedStore):
    """A file."""

    kind = "sqlite"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def execute(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(statement, parameters).fetchall()


class AsyncSqliteStore(OnLoop, SqliteStore):
    kind = "sqlite-async"


class PostgresStore(ClockedStore):
    """A schema, whose clock is moved with the queues' own."""

    kind = "postgres"

    def __init__(self, server: Server) -> None:
        super().__init__(server.url, schema=server.schema)
        self.server = server
        server.start_over(self.clock.now())

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        return self.server.execute(statement.replace("bandog_", "bandog."))

    def advance(self, seconds: float) -> None:
        # The server's first: what this process does when its own clock moves (renew, say) goes by the server's.
        self.server.set_clock(self.clock.now() + timedelta(seconds=seconds))
        super().advance(seconds)


class AsyncPostgresStore(OnLoop, PostgresStore):
    kind = "postgres-async"


STORES = ("sqlite", "sqlite-async")
SERVERS = ("postgres", "postgres-async")


@contextmanager
def opened_on(server: Server, kind: str) -> Iterator[Store]:
    """The store of a parameter on a server, closed afterwards."""
    store = PostgresStore(server) if kind == "postgres" else AsyncPostgresStore(server)
    yield store
    store.stop()


@contextmanager
def opened(kind: str, tmp_path: Path) -> Iterator[SqliteStore]:
    """The store of a parameter, closed afterwards."""
    if kind == "sqlite":
        store = SqliteStore(tmp_path / "jobs.sqlite")
        yield store
        store.close()
        return
    # In memory where there is such a place: the disk had its turn on the other face, and takes most of the time.
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own in it
    folder = Path(tempfile.mkdtemp(prefix="bandog-", dir=memory if os.access(memory, os.W_OK) else None))
    store = AsyncSqliteStore(folder / "jobs.sqlite")
    try:
        yield store
        store.stop()
    finally:
        shutil.rmtree(folder)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sync_only(reason): not on the asynchronous face")
    config.addinivalue_line("markers", "both_faces: what is about SQLite alone is so on both faces")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on every store, each with the faces that it is about."""
    marker = metafunc.definition.get_closest_marker
    if "store" in metafunc.fixturenames:
        kinds = (STORES[0], SERVERS[0]) if marker("sync_only") else (*STORES, *SERVERS)
        metafunc.parametrize("store", kinds, indirect=True)
    elif "sqlite_store" in metafunc.fixturenames and marker("both_faces"):
        metafunc.parametrize("sqlite_store", STORES[:1] if marker("sync_only") else STORES, indirect=True)


@pytest.fixture
def sqlite_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteStore]:
    with opened(getattr(request, "param", "sqlite"), tmp_path) as store:
        yield store


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param in SERVERS:
        with opened_on(request.getfixturevalue("postgres_server"), request.param) as store:
            yield store
    else:
        with opened(request.param, tmp_path) as store:
            yield store


@pytest.fixture
def queue(store: Store) -> bandog.Queue:
    return store.connect()
