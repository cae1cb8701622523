"""Whoever notifies holds a lock of the whole server until its commit is through (C13): nothing of ours but the telling
itself ever asks for it, so that neither our commits nor those of others queue up for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from own_server import OwnServer
from processes import eventually
from steps import Background

import bandog
from bandog import Completed, Job

LOCK = "locktype = 'object' AND classid = 'pg_database'::regclass AND objid = 0"
"""That by which notifications come in the order of their commits."""


@pytest.fixture
def server() -> Iterator[OwnServer]:
    # Commits wait for no standby, but for the one below.
    with OwnServer(synchronous_commit="local") as server:
        bandog.migrate(server.url)
        server.execute("CREATE TABLE other (number integer)")
        yield server


@contextmanager
def slow_commit(server: OwnServer, statement: str) -> Iterator[None]:
    """A transaction of somebody else is being committed all the time: it waits for a standby that never comes."""
    server.set("synchronous_standby_names", "'nobody'")
    with closing(server.connection()) as slow:
        slow.execute("SET synchronous_commit = on")
        slow.execute("BEGIN")
        slow.execute("INSERT INTO other VALUES (0)")
        slow.execute(statement.encode())
        committing = Background(lambda: slow.execute("COMMIT"))
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        eventually(lambda: server.execute(waiting), "it is being committed")
        try:
            yield
        finally:
            server.set("synchronous_standby_names", "''")
            committing.join()


def locks(server: OwnServer, granted: bool) -> list[str]:
    """What those do who have the lock, or wait for it."""
    asked = f"SELECT query FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE {LOCK} AND granted = {granted}"  # noqa: S608
    return [query for (query,) in server.execute(asked)]


def work(queue: bandog.Queue) -> None:
    """Everything that queues jobs, from several callers at once."""
    callers = [Background(lambda: [queue.enqueue() for _ in range(5)]) for _ in range(8)]
    for caller in callers:
        caller.join()
    queue.ingest_many(Job(max_attempts=3, max_recoveries=3) for _ in range(1_000))
    claims = queue.claim(limit=1_040, lease=60)
    assert len(claims) == 1_040
    queue.release(claims.pop())
    queue.fail(claims.pop(), "why", retry_in=60)
    queue.settle_many([(claim, Completed()) for claim in claims])


def test_what_we_store_waits_for_no_notification_of_others(server: OwnServer) -> None:
    with bandog.connect(server.url) as queue:
        with slow_commit(server, "NOTIFY other_channel"):
            assert len(locks(server, granted=True)) == 1
            work(queue)
            eventually(lambda: locks(server, granted=False), "what tells waits")
            assert all("pg_notify" in query for query in locks(server, granted=False))
        eventually(lambda: locks(server, granted=True) == [], "it goes on")
        assert queue.stats(bound=2_000).outcomes["completed"] == 1_038


def test_others_wait_for_none_of_ours(server: OwnServer) -> None:
    """All the while that transactions of ours are being committed, nobody has that lock but what tells."""
    seen: set[str] = set()
    over = time.monotonic() + 1.5
    with bandog.connect(server.url) as queue, closing(server.connection()) as other:
        producing = [Background(lambda: produce(queue, over)) for _ in range(8)]
        while time.monotonic() < over:
            seen.update(locks(server, granted=True))
            other.execute("INSERT INTO other VALUES (1)")
        for producer in producing:
            producer.join()
    assert all("pg_notify" in query for query in seen), seen


def produce(queue: bandog.Queue, over: float) -> None:
    while time.monotonic() < over:
        queue.enqueue()
