"""C20: the oldest snapshot is told, and who holds it: what keeps the server from removing dead rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
import pytest
from processes import eventually

import bandog
from bandog import Snapshot
from bandog.sql import grants

if TYPE_CHECKING:
    from conftest import Database

HOLDER = "nightly report"
"""What the session that holds it calls itself."""


def transactions(database: Database, count: int) -> None:
    """So many transactions begin and end."""
    with closing(database.connection()) as connection:
        for _ in range(count):
            connection.execute("SELECT pg_current_xact_id()")


def held_by(queue: bandog.Queue, holder: str) -> Snapshot | None:
    """The oldest snapshot, where it is that one's; others come and go on a server."""
    snapshot = queue.stats().oldest_snapshot
    return snapshot if snapshot is not None and snapshot.holder == holder else None


def is_let_go(queue: bandog.Queue, holder: str) -> None:
    eventually(lambda: held_by(queue, holder) is None, "the snapshot is gone")


@pytest.fixture
def session(database: Database) -> Iterator[psycopg.Connection[Any]]:
    with closing(psycopg.connect(database.url, application_name=HOLDER, autocommit=True)) as connection:
        yield connection


def test_a_held_snapshot_is_told_with_its_holder_and_grows_until_it_is_let_go(
    database: Database, queue: bandog.Queue, session: psycopg.Connection[Any]
) -> None:
    pid = str(session.info.backend_pid)
    assert held_by(queue, pid) is None
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    session.execute("SELECT count(*) FROM bandog.job")
    transactions(database, 50)
    first = eventually(lambda: held_by(queue, pid), "the snapshot is seen")
    assert isinstance(first, Snapshot)
    assert (first.kind, first.application) == ("session", HOLDER)
    assert first.age is not None
    assert first.age > 0
    assert first.transactions >= 50
    transactions(database, 50)
    later = held_by(queue, pid)
    assert later is not None
    assert later.age is not None
    assert later.age > first.age
    assert later.transactions >= first.transactions + 50
    session.execute("COMMIT")
    is_let_go(queue, pid)


def test_a_transaction_that_has_written_and_sleeps_holds_as_much(
    database: Database, queue: bandog.Queue, session: psycopg.Connection[Any]
) -> None:
    session.execute("BEGIN; SELECT pg_current_xact_id()")
    transactions(database, 50)
    pid = str(session.info.backend_pid)
    snapshot = eventually(lambda: held_by(queue, pid), "it is seen")
    assert isinstance(snapshot, Snapshot)
    assert snapshot.transactions >= 50
    # The server's own word for it: what was deleted after the transaction began stays.
    database.execute("CREATE TABLE public.dead AS SELECT 1 AS n FROM generate_series(1, 100)")
    database.execute("DELETE FROM public.dead")
    database.execute("VACUUM public.dead")
    size = "SELECT pg_relation_size('public.dead')"
    assert database.execute(size) > [(0,)]
    session.execute("ROLLBACK")
    is_let_go(queue, pid)
    eventually(
        lambda: database.execute("VACUUM public.dead") == [] and database.execute(size) == [(0,)], "it is emptied"
    )


def test_a_session_that_only_waits_holds_nothing(
    database: Database, queue: bandog.Queue, session: psycopg.Connection[Any]
) -> None:
    session.execute("BEGIN")
    session.execute("SELECT count(*) FROM bandog.job")
    transactions(database, 50)
    assert held_by(queue, str(session.info.backend_pid)) is None


def test_another_database_keeps_no_rows_of_this_one(database: Database, queue: bandog.Queue, postgres_url: str) -> None:
    with closing(psycopg.connect(postgres_url, autocommit=True)) as elsewhere:
        elsewhere.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        elsewhere.execute("SELECT count(*) FROM pg_class")
        transactions(database, 50)
        assert held_by(queue, str(elsewhere.info.backend_pid)) is None


def test_of_several_the_oldest_is_told(database: Database, queue: bandog.Queue) -> None:
    pids = []
    with closing(database.connection()) as first, closing(database.connection()) as second:
        for connection in (first, second):
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute("SELECT count(*) FROM bandog.job")
            pids.append(str(connection.info.backend_pid))
            transactions(database, 20)
        eventually(lambda: held_by(queue, pids[0]), "the first one is the oldest")
        first.execute("COMMIT")
        eventually(lambda: held_by(queue, pids[1]), "then the second one is")


def test_a_prepared_transaction_is_told(database: Database, queue: bandog.Queue) -> None:
    if database.execute("SHOW max_prepared_transactions") == [("0",)]:
        # The statement is the same there, and finds none.
        assert (queue.stats().oldest_snapshot or Snapshot("", "", None, None, 0)).kind != "prepared"
        return
    with closing(database.connection()) as connection:
        connection.execute("BEGIN; INSERT INTO bandog.lane_limit VALUES ('q', 'l', 1); PREPARE TRANSACTION 'forgotten'")
        try:
            transactions(database, 50)
            snapshot = eventually(lambda: held_by(queue, "forgotten"), "it is seen")
        finally:
            connection.execute("ROLLBACK PREPARED 'forgotten'")
    assert isinstance(snapshot, Snapshot)
    assert (snapshot.kind, snapshot.application) == ("prepared", None)
    assert snapshot.age is not None
    is_let_go(queue, "forgotten")


def test_an_ordinary_role_sees_who_holds_it_and_how_far_back_but_not_since_when(
    database: Database, session: psycopg.Connection[Any]
) -> None:
    role = f"bandog looks {os.getpid()}"
    database.execute(f'DROP ROLE IF EXISTS "{role}"; CREATE ROLE "{role}" LOGIN')
    try:
        for statement in grants("observer", role):
            database.execute(statement)
        parts = urlsplit(database.url)
        url = urlunsplit(parts._replace(netloc=f"{quote(role)}@{parts.netloc.rpartition('@')[2]}"))
        pid = str(session.info.backend_pid)
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        session.execute("SELECT count(*) FROM bandog.job")
        transactions(database, 50)
        with bandog.connect(url) as queue:
            snapshot = eventually(lambda: held_by(queue, pid), "it is seen")
            assert isinstance(snapshot, Snapshot)
            assert (snapshot.kind, snapshot.application, snapshot.age) == ("session", HOLDER, None)
            assert snapshot.transactions >= 50
            database.execute(f'GRANT pg_read_all_stats TO "{role}"')
            snapshot = eventually(lambda: held_by(queue, pid), "it is seen still")
            assert isinstance(snapshot, Snapshot)
            assert snapshot.age is not None
    finally:
        database.execute(f'DROP OWNED BY "{role}" CASCADE; DROP ROLE "{role}"')
