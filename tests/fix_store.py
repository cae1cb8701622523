"""The stores that the conformance suite runs on.

A test of an operation uses the public API and the :class:`Store` below, nothing else, so that it runs unchanged on
every store. A test that needs the fake clock or the file takes ``sqlite_store``, in a file named ``*_sqlite``.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

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

    def held(self, queue: bandog.Queue) -> int:
        """How many claims are being renewed for the runtimes of a queue."""
        return queue.engine.held()

    def is_about(self, actual: datetime | None, expected: datetime) -> bool:
        """Whether a time is the expected one, as closely as this store's clock allows."""
        return actual is not None and abs(actual - expected) <= self.tolerance


class SqliteStore(Store):
    """A file, and a clock that all its queues share."""

    kind = "sqlite"
    tolerance = timedelta(0)

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = FakeClock()
        self._open: list[bandog.Queue] = []

    def connect(self, **options: Any) -> bandog.Queue:
        queue = bandog.connect(self.path, clock=self.clock, **options)
        self._open.append(queue)
        return queue

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

    def execute(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Run SQL on a connection and in a transaction of its own. SQLite only: for what no public call shows."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(statement, parameters).fetchall()


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "jobs.sqlite")
    yield store
    store.close()


@pytest.fixture(params=["sqlite"])
def store(request: pytest.FixtureRequest) -> Store:
    return request.getfixturevalue(f"{request.param}_store")


@pytest.fixture
def queue(store: Store) -> bandog.Queue:
    return store.connect()
