"""A session that is a link's own is told its settings once, and a transaction of one statement is that statement.

Through a pooler it is not: see :mod:`test_pooler`, whose server writes every statement down. Where links are encrypted,
the session is found to be their own as well: see :mod:`test_tls`.
"""

from __future__ import annotations

from typing import Any

import pytest
from processes import eventually

import bandog
from bandog.sql import statement

LAST = "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'bandog'"


def said_last(database: Any) -> list[str]:
    """On each link: ``COMMIT`` where a transaction was begun, else the first line of the statement."""
    return [query.splitlines()[0] for (query,) in database.execute(LAST) if query]


def work(queue: bandog.Queue) -> None:
    for _ in range(3):  # until it is prepared
        queue.enqueue()
        (claim,) = queue.claim(lease=60)
        queue.renew(claim, lease=60)
        queue.acknowledge(claim)


def test_one_statement_is_a_transaction(database: Any, queue: bandog.Queue) -> None:
    alone = {statement("postgres", name).splitlines()[0] for name in ("ingest", "claim", "renew", "settle")}

    def are_alone() -> bool:
        work(queue)  # a claim may have recovered first
        return alone <= set(said_last(database))

    eventually(are_alone, "each statement is said alone")


def test_several_statements_are_one_transaction(database: Any, queue: bandog.Queue) -> None:
    work(queue)
    queue.ingest_many(bandog.Job(max_attempts=2) for _ in range(2))
    first, second = queue.claim(limit=2)
    queue.settle_many([(first, bandog.Completed()), (second, bandog.Failed("why"))])
    assert said_last(database).count("COMMIT") >= 2


@pytest.mark.parametrize(
    ("setting", "value"),
    [("default_transaction_isolation", "serializable"), ("search_path", "elsewhere"), ("statement_timeout", "1")],
)
def test_what_the_database_says_otherwise_does_not_hold(database: Any, setting: str, value: str) -> None:
    database.migrate()
    database.execute(f'ALTER DATABASE "{database.name}" SET {setting} = {value}')
    work(database.queue())
