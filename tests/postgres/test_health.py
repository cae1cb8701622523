"""C20: the oldest snapshot is told, and who holds it: what keeps the server from removing dead rows."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from conftest import Database
from fix_postgres import as_role
from own_server import OwnServer
from processes import eventually
from psycopg.conninfo import make_conninfo
from psycopg.pq import ConnStatus, ExecStatus, PGconn

import bandog
from bandog import Snapshot
from bandog.sql import grants

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

    def is_emptied() -> bool:
        database.execute("VACUUM public.dead")
        return database.execute(size) == [(0,)]

    eventually(is_emptied, "what is dead is removed")


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


@pytest.fixture(scope="module")
def own() -> Iterator[Database]:
    """A server of our own, that lets transactions be prepared and standbys report: another one need not."""
    with OwnServer() as server:
        with closing(psycopg.connect(server.url, autocommit=True)) as connection:
            connection.execute("ALTER SYSTEM SET max_prepared_transactions = 2")
            server.kill()
        server.start()
        database = Database(server.url, "postgres")
        database.migrate()
        yield database
        database.close()


@contextmanager
def standby(database: Database, slot: str | None = None) -> Iterator[None]:
    """Report to the server as a standby does whose queries need rows of the past (hot_standby_feedback)."""
    ((now,),) = database.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
    ((at,),) = database.execute("SELECT pg_current_wal_lsn()::text")
    link = PGconn.connect(make_conninfo(database.url, application_name=HOLDER, replication="true").encode())
    try:
        assert link.status == ConnStatus.OK, link.get_error_message()
        named = f" SLOT {slot}" if slot else ""
        begun = link.exec_(f"START_REPLICATION{named} PHYSICAL {at}".encode())
        assert begun.status == ExecStatus.COPY_BOTH, begun.get_error_message()
        link.put_copy_data(b"h" + struct.pack(">qIIII", 0, now & 0xFFFFFFFF, now >> 32, 0, 0))
        link.flush()
        yield
    finally:
        link.finish()


def test_a_replication_slot_is_told(own: Database) -> None:
    own.execute("SELECT pg_create_physical_replication_slot('forgotten_slot', true)")
    with bandog.connect(own.url) as queue:
        with standby(own, "forgotten_slot"):
            eventually(lambda: held_by(queue, "forgotten_slot"), "the standby has reported")
        # The standby is gone, and what it needs is kept.
        transactions(own, 50)
        snapshot = held_by(queue, "forgotten_slot")
        is_used = "SELECT 1 FROM pg_replication_slots WHERE active"
        eventually(lambda: own.execute(is_used) == [], "nobody uses it")
        own.execute("SELECT pg_drop_replication_slot('forgotten_slot')")
        is_let_go(queue, "forgotten_slot")
    assert snapshot is not None
    assert (snapshot.kind, snapshot.application, snapshot.age) == ("slot", None, None)
    assert snapshot.transactions >= 50


def test_a_standby_without_a_slot_is_told_as_a_session(own: Database) -> None:
    with bandog.connect(own.url) as queue:
        with standby(own):
            ((pid,),) = own.execute("SELECT pid::text FROM pg_stat_replication WHERE application_name = %s", (HOLDER,))
            snapshot = eventually(lambda: held_by(queue, pid), "the standby has reported")
        is_let_go(queue, pid)
    assert isinstance(snapshot, Snapshot)
    assert (snapshot.kind, snapshot.application, snapshot.age) == ("session", HOLDER, None)


def test_a_prepared_transaction_is_told(own: Database) -> None:
    own.execute("BEGIN; INSERT INTO bandog.lane_limit VALUES ('q', 'l', 1); PREPARE TRANSACTION 'forgotten'")
    transactions(own, 50)
    with bandog.connect(own.url) as queue:
        snapshot = eventually(lambda: held_by(queue, "forgotten"), "it is seen")
        own.execute("ROLLBACK PREPARED 'forgotten'")
        is_let_go(queue, "forgotten")
    assert isinstance(snapshot, Snapshot)
    assert (snapshot.kind, snapshot.application) == ("prepared", None)
    assert snapshot.age is not None
    assert snapshot.transactions >= 50


def test_an_ordinary_role_sees_who_holds_it_and_how_far_back_but_not_since_when(
    database: Database, session: psycopg.Connection[Any]
) -> None:
    role = f"bandog looks {os.getpid()}"
    database.execute(f'DROP ROLE IF EXISTS "{role}"; CREATE ROLE "{role}" LOGIN')
    try:
        for statement in grants("observer", role):
            database.execute(statement)
        pid = str(session.info.backend_pid)
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        session.execute("SELECT count(*) FROM bandog.job")
        transactions(database, 50)
        with bandog.connect(as_role(database.url, role)) as queue:
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
