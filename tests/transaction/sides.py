"""Two stores side by side: one is asked natively, the other through connections of the caller's."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from hypothesis import strategies as st
from through import ThroughConnection

import bandog
from bandog import Backoff, BandogError, Cancelled, Completed, Failed, Job, OutcomeUnknown, Release, Snooze
from bandog.testing import FakeClock

if TYPE_CHECKING:
    from fix_postgres import Server

NAMES = st.sampled_from(["a", "b", "c", "ü", "d e"])
LANES = st.sampled_from(["default", "narrow", "wide"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**60) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
SECONDS = st.sampled_from([0, 0.5, 1, 30, 86400])
BACKOFFS = st.none() | st.builds(lambda base, more: Backoff(base, base + more), SECONDS, SECONDS)

JOBS = st.builds(
    Job,
    payload=VALUES | st.just(1),
    job_id=NAMES,
    queue=st.sampled_from(["default", "q"]),
    lane=LANES,
    priority=st.integers(-1, 1),
    max_attempts=st.none() | st.integers(1, 3),
    max_recoveries=st.none() | st.integers(0, 2),
    delay=st.none() | SECONDS,
    backoff=BACKOFFS,
    timeout=st.none() | st.just(5),
)
REPORTS = st.one_of(
    st.builds(Completed, VALUES | st.just(object)),
    st.builds(
        Failed,
        st.text(max_size=3),
        retry=st.booleans() | st.just(True),
        retry_in=st.none() | SECONDS,
        backoff=BACKOFFS,
    ),
    st.builds(Cancelled, st.none() | st.text(max_size=3)),
    st.builds(OutcomeUnknown, VALUES | st.just(object)),
    st.builds(Snooze, SECONDS),
    st.just(Release()),
)
CALLS = st.one_of(
    st.tuples(st.just("ingest"), JOBS),
    st.tuples(st.just("ingest_many"), st.lists(JOBS, max_size=4)),
    st.tuples(st.just("claim"), st.integers(1, 3)),
    st.tuples(st.just("settle"), st.integers(0, 5), REPORTS, st.sampled_from(["object", "pair"])),
    st.tuples(st.just("cancel"), NAMES),
    st.tuples(st.just("requeue"), NAMES),
    st.tuples(st.just("recover")),
    st.tuples(st.just("advance"), st.sampled_from([0.25, 1, 61, 3600])),
    st.tuples(st.just("set_lane_limit"), LANES, st.none() | st.integers(0, 2)),
)


class Side:
    """One of the two: a store, a clock, and the claims that were made in it."""

    tables: tuple[str, ...]

    def __init__(self, opened: bandog.Queue, clock: FakeClock, connect: Callable[[], Any] | None) -> None:
        """``connect`` opens connections of the caller's; ``None`` for the native side."""
        self.opened = opened
        self.clock = clock
        self.queue: Any = opened if connect is None else ThroughConnection(opened, connect)
        self.claims: list[bandog.ClaimedJob] = []

    def select(self, statement: str) -> list[tuple[Any, ...]]:
        """Rows; ``bandog_`` stands before the names of the tables."""
        raise NotImplementedError

    def do(self, call):
        """The answer, as text."""
        name, *arguments = call
        try:
            return getattr(self, name)(*arguments)
        except BandogError as error:
            return f"{type(error).__name__}: {error}"

    def ingest(self, job):
        return shown(self.queue.ingest(job))

    def ingest_many(self, jobs):
        return [shown(admission) for admission in self.queue.ingest_many(jobs)]

    def claim(self, limit):
        claims = self.queue.claim("w", limit=limit, lease=60)
        self.claims += claims
        return [(claim.job_id, claim.attempt) for claim in claims]

    def settle(self, place, report, how):
        if not self.claims:
            return None
        claim = self.claims[-1 - place % len(self.claims)]
        return self.queue.settle(claim if how == "object" else (claim.job_id, claim.lease_token), report)

    def cancel(self, job_id):
        return self.queue.cancel(job_id)

    def recover(self):
        return self.queue.recover()

    def requeue(self, job_id):
        return self.queue.requeue(job_id, force=True)

    def advance(self, seconds):
        self.clock.advance(seconds)

    def set_lane_limit(self, lane, limit):
        self.queue.set_lane_limit("q", lane, limit)

    def rows(self):
        """Every row, with the token of each claim call as its number."""
        tokens = {claim.lease_token: f"token of {claim.job_id} {claim.attempt}" for claim in reversed(self.claims)}
        return {
            table: [
                tuple(tokens.get(value, value) if isinstance(value, str) else repr(value) for value in row)
                for row in self.select(f"SELECT * FROM bandog_{table} ORDER BY 1, 2")  # noqa: S608 - of the list above
            ]
            for table in self.tables
        }


class FileSide(Side):
    """An SQLite file."""

    tables = ("job", "ready", "lease", "outcome", "counter", "clock", "lane_limit")

    def __init__(self, folder: Path, *, native: bool) -> None:
        self.path = folder / ("native.sqlite" if native else "ours.sqlite")
        clock = FakeClock()
        opened = bandog.connect(self.path, clock=clock)
        super().__init__(opened, clock, None if native else lambda: sqlite3.connect(self.path, timeout=60))

    def select(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as reader:
            return reader.execute(statement).fetchall()


class ServerSide(Side):
    """A schema of a PostgreSQL database."""

    tables = ("job", "ready", "lease", "outcome", "lane_limit")

    def __init__(self, server: Server, *, native: bool) -> None:
        self.server = server
        clock = FakeClock()
        server.start_over(clock.now())
        server.execute("ALTER SEQUENCE bandog.job_number_seq RESTART")
        opened = bandog.connect(server.url, schema=server.schema, clock=clock)
        super().__init__(opened, clock, None if native else lambda: psycopg.connect(server.url))

    def advance(self, seconds: float) -> None:
        self.server.set_clock(self.clock.now() + timedelta(seconds=seconds))
        super().advance(seconds)

    def select(self, statement: str) -> list[tuple[Any, ...]]:
        return self.server.execute(statement.replace("bandog_", "bandog."))


def shown(admission):
    """What an admission says, all of it."""
    job = admission.job
    names = [] if job is None else [name for name in dir(job) if not name.startswith("_")]
    fields = {name: getattr(job, name) for name in names}
    return admission.kind, admission.job_id, admission.limit, admission.difference, repr(fields)
