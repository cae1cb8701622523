"""Behind a pooler that hands sessions on after every transaction (C15); and columns that are added meanwhile."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import psycopg
import pytest
from own_server import OwnServer
from pooler import Pooler
from processes import eventually

import bandog
from bandog import Job

HOUR = 3_600.0


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    """One that writes every statement down."""
    with OwnServer() as server:
        bandog.migrate(server.url)
        with closing(psycopg.connect(server.url, autocommit=True)) as connection:
            connection.execute("ALTER SYSTEM SET log_statement = 'all'")
            connection.execute("ALTER SYSTEM SET log_line_prefix = '[%a] '")
            connection.execute("SELECT pg_reload_conf()")
        yield server


@pytest.fixture
def pooler(server: OwnServer) -> Iterator[Pooler]:
    with closing(psycopg.connect(server.url, autocommit=True)) as connection:
        connection.execute("TRUNCATE bandog.job, bandog.ready, bandog.lease, bandog.outcome")
    with Pooler(server.url) as pooler:
        yield pooler


@contextmanager
def workers(
    count: int, url: str, execute: Callable[[bandog.ClaimedJob, Any], None], **options: Any
) -> Iterator[list[bandog.Worker]]:
    """So many, each with links of its own."""
    with ExitStack() as stack:
        made: list[bandog.Worker] = []
        for number in range(count):
            queue = stack.enter_context(closing(bandog.connect(url)))
            worker = bandog.Worker(queue, execute, **{"lease": 30.0, "worker": f"worker-{number}", **options})
            worker.start()
            stack.callback(worker.stop, 5.0)
            made.append(worker)
        yield made


def said_since(server: OwnServer, begin: int) -> str:
    return server.log.read_bytes()[begin:].decode()


def drained(queue: bandog.Queue) -> bool:
    try:
        return not queue.has_pending_work()
    except bandog.StoreError:
        return False


@pytest.mark.pooler
def test_everything_works_behind_a_pooler_and_nothing_is_left_in_its_sessions(
    server: OwnServer, pooler: Pooler, caplog: pytest.LogCaptureFixture
) -> None:
    starts: Counter[str] = Counter()
    begin = server.log.stat().st_size
    with caplog.at_level(logging.INFO), closing(bandog.connect(pooler.url)) as queue:
        with workers(8, pooler.url, lambda job, _cancel: starts.update([job.job_id]), poll=0.2, concurrency=2):
            for first in range(0, 1_000, 100):
                queue.ingest_many(Job(job_id=f"{number}") for number in range(first, first + 100))
            eventually(lambda: drained(queue), "all jobs get their outcome", 120)
        assert queue.stats(bound=1_000).outcomes["completed"] == 1_000
    assert len(starts) == 1_000
    assert set(starts.values()) == {1}
    said = said_since(server, begin)
    assert "pg_notify" in said, "it is the right log"
    assert not re.search(r"prepared statement \S+ (does not exist|already exists)", said + caplog.text)
    assert not re.search(r"\bLISTEN\b|advisory_lock|DISCARD|\bSET (?!LOCAL|TRANSACTION)\w+ (TO|=)", said)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.pooler
def test_a_worker_behind_a_pooler_listens_by_another_way(server: OwnServer, pooler: Pooler) -> None:
    folder = parse_qs(urlsplit(server.url).query)["host"][0]
    url = f"{pooler.url}?listen_host={quote(folder, safe='')}"
    starts: list[str] = []
    begin = server.log.stat().st_size
    with (
        workers(1, url, lambda job, _cancel: starts.append(job.job_id), poll=HOUR),
        closing(bandog.connect(pooler.url)) as producer,
    ):
        eventually(lambda: re.search(r"\bLISTEN bandog\b", said_since(server, begin)), "it listens")
        for number in range(5):
            producer.enqueue(job_id=f"{number}")
            eventually(lambda number=number: f"{number}" in starts, "it hears of the job", patience=20)


@pytest.mark.pooler
def test_a_pooler_that_is_killed_and_comes_back_loses_nothing(pooler: Pooler, server: OwnServer) -> None:
    starts: Counter[str] = Counter()

    def execute(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
        starts.update([job.job_id])
        time.sleep(0.01)

    with closing(bandog.connect(server.url)) as queue:
        queue.ingest_many(Job(job_id=f"{number}") for number in range(300))
        with workers(3, pooler.url, execute, poll=0.2, concurrency=2):
            for settled in (50, 150):
                eventually(lambda settled=settled: len(starts) >= settled, "they are at work")
                pooler.kill()
                pooler.start()
            eventually(lambda: drained(queue), "all jobs get their outcome", 120)
        assert queue.stats(bound=300).outcomes["completed"] == 300
        assert all(record.attempts == 1 + record.recoveries for record in queue.jobs(limit=300).jobs)


def test_columns_may_be_added_under_links_that_have_prepared_their_statements(
    database: Any, caplog: pytest.LogCaptureFixture
) -> None:
    queue = database.queue()

    def use_everything(prefix: str) -> None:
        for number in range(5):
            queue.enqueue({"n": number}, job_id=f"{prefix}-{number}")
            (claim,) = queue.claim()
            assert queue.renew(claim) is None
            assert queue.acknowledge(claim).kind == "completed"
            assert queue.read(claim.job_id).payload == {"n": number}

    with caplog.at_level(logging.INFO):
        use_everything("before")
        for table in ("job", "ready", "lease", "outcome"):
            database.execute(f"ALTER TABLE bandog.{table} ADD COLUMN note text DEFAULT 'later'")
        use_everything("after")
    assert [record.levelname for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert caplog.text.count("prepares no statements") == 0
    assert queue.stats(bound=99).outcomes["completed"] == 10
