"""C21 at its full size: two million jobs that nobody runs, a million for tomorrow, a million settled, a hundred to run.

It takes some minutes and 2 GB, and it looks at the time: BANDOG_FULL_SIZE=1 runs it, and -s shows its figures. In the
suite the tests of plans look at what is read.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

import bandog
from bandog._core import DEBUG_BUILD

pytestmark = [
    pytest.mark.skipif(not os.environ.get("BANDOG_FULL_SIZE"), reason="some minutes and 2 GB: BANDOG_FULL_SIZE=1"),
    pytest.mark.timeout(3600),
]

WAITING, FUTURE, SETTLED, TO_RUN = 2_000_000, 1_000_000, 1_000_000, 100

JOB = """
    INSERT INTO bandog.job (number, job_id, queue, lane, priority, payload, max_attempts, admitted_at)
    SELECT n, 'job-' || n, %s, %s, %s, '{{"n":1}}', 3, now() FROM generate_series({first}::int8, {last}::int8) AS n
"""
READY = """
    INSERT INTO bandog.ready (number, queue, lane, priority, available_at, late, attempts, given_back, recoveries)
    SELECT n, %s, %s, %s, now() + interval '{due}' + n * interval '1 microsecond', false, 0, 0, 0
    FROM generate_series({first}::int8, {last}::int8) AS n
"""
OUTCOME = """
    INSERT INTO bandog.outcome (number, kind, settled_at, worker, attempts, given_back, recoveries, last_token)
    SELECT n, CASE WHEN n % 10 > 0 THEN 'completed' ELSE 'failed' END,
        now() - interval '1 day' + n * interval '1 microsecond', 'w', 1, 0, 0, 't' || n
    FROM generate_series({first}::int8, {last}::int8) AS n
"""


def load(database: Any) -> None:
    piles = [
        # Nobody works on lane a, which comes first by priority in a queue of its own and in the one that is worked on.
        (WAITING // 2, "a", "a", 0, "-1 day"),
        (WAITING // 2, "a", "a", 7, "-1 day"),
        (FUTURE, "b", "a", 9, "1 day"),
        (SETTLED, "b", "b", 0, None),
        (TO_RUN, "b", "b", 0, "-1 day"),
    ]
    first = 1
    with closing(database.connection()) as connection:
        for count, queue, lane, priority, due in piles:
            span = {"first": first, "last": first + count - 1}
            connection.execute(JOB.format(**span).encode(), (queue, lane, priority))
            if due is None:
                connection.execute(OUTCOME.format(**span).encode())
            else:
                connection.execute(READY.format(due=due, **span).encode(), (queue, lane, priority))
            first += count
        connection.execute("SELECT setval('bandog.job_number_seq', %s)", (first,))


def measure(name: str, call: Callable[[], object], count: int) -> float:
    """The 95th percentile, in milliseconds."""
    found = []
    for _ in range(count):
        begun = time.perf_counter()
        call()
        found.append((time.perf_counter() - begun) * 1000)
    found.sort()
    tail = found[math.ceil(len(found) * 0.95) - 1]
    print(f"{name:40} p50 {statistics.median(found):9.3f} ms   p95 {tail:9.3f} ms   ({count} calls)")
    return tail


@pytest.mark.parametrize("statistics_are", ["of the empty tables", "fresh"])
def test_what_is_asked_often_does_not_read_the_piles(database: Any, statistics_are: str) -> None:
    queue = database.queue()
    queue.ingest_many(bandog.Job(queue="b", lane="b") for _ in range(TO_RUN))
    figures = {
        "empty: enqueue": measure("empty: enqueue", lambda: queue.enqueue({"n": 1}, queue="b", delay=86_400), 300),
        "empty: claim": measure("empty: claim in b, one", lambda: queue.claim(queues="b"), TO_RUN),
    }
    queue.close()
    database.execute("TRUNCATE bandog.job, bandog.ready, bandog.lease, bandog.outcome")
    begun = time.perf_counter()
    load(database)
    if statistics_are == "fresh":
        database.execute("VACUUM ANALYZE")
    ((size,),) = database.execute("SELECT pg_database_size(current_database())")
    print(f"loaded in {time.perf_counter() - begun:.0f} s, {size / 1e9:.2f} GB, debug build: {DEBUG_BUILD}")

    queue = database.queue()
    calls: list[tuple[str, Callable[[], object], int]] = [
        ("enqueue", lambda: queue.enqueue({"n": 1}, queue="b", lane="b", delay=86_400), 300),
        ("claim in b, one", lambda: queue.claim(queues="b"), TO_RUN // 2),
        ("claim in b, ten", lambda: queue.claim(queues="b", limit=10), 5),
        ("claim in b, none due", lambda: queue.claim(queues="b"), 50),
        ("claim in any queue, one", queue.claim, 50),
        ("has_pending_work", queue.has_pending_work, 50),
        ("next_wake", queue.next_wake, 50),
        ("stats", queue.stats, 10),
        ("dead_letters", queue.dead_letters, 20),
        ("jobs", queue.jobs, 20),
        ("jobs, settled failed", lambda: queue.jobs(outcome="failed"), 20),
        ("read", lambda: queue.read("job-5"), 50),
        ("purge(limit=1000)", lambda: queue.purge(older_than=0, limit=1000), 10),
        ("fail_lane in a, limit=1000", lambda: queue.fail_lane("a", "a", "why"), 5),
    ]
    for name, call, count in calls:
        figures[name] = measure(name, call, count)
    for name in ("claim in b, one", "claim in b, ten", "claim in b, none due", "claim in any queue, one"):
        assert figures[name] < 20, name
    for name in ("has_pending_work", "next_wake", "read"):
        assert figures[name] < 20, name
    for name in ("stats", "dead_letters", "jobs", "jobs, settled failed"):
        assert figures[name] < 500, name
    assert figures["enqueue"] < max(3 * figures["empty: enqueue"], 10)
