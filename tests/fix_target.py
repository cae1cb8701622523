"""Where several processes have one queue: an SQLite file, or a database on a PostgreSQL server, each on its own clock.

A test of crashes or of concurrency takes ``target`` and runs on both. Scripts get its ``url``, which is all that they
know of it; what is asked past the library names the tables as in a file.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fix_postgres import fresh_database

# Test folders are no packages, and others than that one use this.
sys.path.insert(0, str(Path(__file__).parent / "crash"))

from processes import Look, assert_each_in_one_state, assert_sound, eventually, looking_at_file

import bandog

_numbers = itertools.count(1)


class Target:
    """A store, by its URL."""

    kind: str
    url: str
    relaxed: str
    """The same, where a power cut may cost the last jobs: for what is about many jobs, not about the disk."""

    lock: str
    """SQL that keeps everybody else from writing until COMMIT, and nobody from reading."""

    snapshot: str
    """SQL after which all until COMMIT see the tables as they are at the first look."""

    def connect(self, **options: Any) -> bandog.Queue:
        return bandog.connect(self.url, **options)

    def looking(self) -> AbstractContextManager[Look]:
        """A connection of its own in autocommit mode, as a function that runs SQL with ``?`` for each parameter."""
        raise NotImplementedError

    def select(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Ask the tables themselves."""
        with self.looking() as look:
            return look(statement, *parameters)

    def leases(self, look: Look) -> list[tuple[int, int]]:
        """When each lease ends, and what is left of it, in microseconds of the clock that leases go by."""
        raise NotImplementedError

    def await_end_of_the_killed(self) -> None:
        """Wait until nothing can happen any more that a killed process had begun. No queue may be open here."""
        raise NotImplementedError

    def assert_sound(self) -> None:
        """It is well-formed, and every job is in exactly one state."""
        with self.looking() as look:
            assert_each_in_one_state(look)


class FileTarget(Target):
    kind = "sqlite"
    lock = "BEGIN IMMEDIATE"
    snapshot = "BEGIN"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = str(path)
        self.relaxed = f"sqlite:///{path}?synchronous=normal"

    def looking(self) -> AbstractContextManager[Look]:
        return looking_at_file(self.path)

    def leases(self, look: Look) -> list[tuple[int, int]]:
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
        return [(end, end - now) for (end,) in look("SELECT lease_until FROM bandog_lease")]

    def await_end_of_the_killed(self) -> None:
        """The file was theirs alone to change."""

    def assert_sound(self) -> None:
        assert_sound(self.path)


class ServerTarget(Target):
    kind = "postgres"
    lock = "BEGIN; LOCK TABLE bandog_job, bandog_ready, bandog_lease, bandog_outcome IN EXCLUSIVE MODE"
    snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ"

    def __init__(self, url: str) -> None:
        self.url = self.relaxed = url
        bandog.migrate(url)

    @contextmanager
    def looking(self) -> Iterator[Look]:
        with closing(psycopg.connect(self.url, autocommit=True, application_name="looking")) as connection:

            def look(statement: str, *parameters: object) -> list[tuple[Any, ...]]:
                ours = statement.replace("bandog_", "bandog.").replace("?", "%s")
                cursor = connection.execute(ours.encode(), parameters or None)
                return cursor.fetchall() if cursor.description else []

            yield look

    def leases(self, look: Look) -> list[tuple[int, int]]:
        micros = "(extract(epoch FROM {}) * 1000000)::bigint"
        end, left = micros.format("lease_until"), micros.format("lease_until - clock_timestamp()")
        return [(end, left) for end, left in look(f"SELECT {end}, {left} FROM bandog_lease")]  # noqa: S608 - of the above

    def await_end_of_the_killed(self) -> None:
        """What the server was asked to do it does, whether or not anybody is left to hear of it."""
        theirs = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'bandog'"
        )
        with self.looking() as look:
            eventually(lambda: look(theirs) == [(0,)], "the server is done with the sessions of the killed")


KINDS = ("sqlite", "postgres")


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    if request.param == "sqlite":
        yield FileTarget(tmp_path / "jobs.sqlite")
        return
    name = f"bandog_target_{os.getpid()}_{next(_numbers)}"
    with fresh_database(request.getfixturevalue("postgres_url"), name) as url:
        yield ServerTarget(url)
