"""C21 at its full size: two million jobs that nobody runs, a million for tomorrow, a million settled, a hundred to run.

It takes a minute and 0.6 GB, and it looks at the time: BANDOG_FULL_SIZE=1 runs it, and -s shows its figures.
"""

import math
import os
import sqlite3
import statistics
import time
from contextlib import closing
from functools import partial

import pytest

import bandog
from bandog._core import DEBUG_BUILD

pytestmark = [
    pytest.mark.skipif(not os.environ.get("BANDOG_FULL_SIZE"), reason="a minute and 0.6 GB: BANDOG_FULL_SIZE=1"),
    pytest.mark.timeout(3600),
]

WAITING, FUTURE, SETTLED, TO_RUN = 2_000_000, 1_000_000, 1_000_000, 100
DAY = 86_400_000_000

SERIES = "WITH RECURSIVE series (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM series WHERE n < {last})"
JOB = """
    INSERT INTO bandog_job (number, job_id, queue, lane, priority, payload, max_attempts, admitted_at)
    {series} SELECT n, 'job-' || n, '{queue}', '{lane}', {priority}, '{{"n":1}}', 3, {now} FROM series
"""
READY = """
    INSERT INTO bandog_ready (number, queue, lane, priority, available_at, held, attempts, given_back, recoveries)
    {series} SELECT n, '{queue}', '{lane}', {priority}, {now} + n, 0, 0, 0, 0 FROM series
"""
OUTCOME = """
    INSERT INTO bandog_outcome (number, kind, settled_at, worker, attempts, given_back, recoveries, error, last_token)
    {series} SELECT n, CASE WHEN n % 10 THEN 'completed' ELSE 'failed' END, {now} + n, 'w', 1, 0, 0, NULL, 't' || n
    FROM series
"""


def load(path):
    """Fill the tables of a store that was just made."""
    now = time.time_ns() // 1000
    first = 1
    piles = [
        # Nobody works on lane a, which comes first by priority in a queue of its own and in the one that is worked on.
        (WAITING // 2, READY, {"queue": "a", "lane": "a", "priority": 0, "now": now - DAY}),
        (WAITING // 2, READY, {"queue": "a", "lane": "a", "priority": 7, "now": now - DAY}),
        (FUTURE, READY, {"queue": "b", "lane": "a", "priority": 9, "now": now + DAY}),
        (SETTLED, OUTCOME, {"queue": "b", "lane": "b", "priority": 0, "now": now - DAY}),
        (TO_RUN, READY, {"queue": "b", "lane": "b", "priority": 0, "now": now - DAY}),
    ]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        for count, statement, words in piles:
            series = SERIES.format(first=first, last=first + count - 1)
            for each in (JOB, statement):
                connection.execute(each.format(series=series, **words))
            first += count
        connection.execute("UPDATE bandog_counter SET last = ?", (first,))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def times(call, count):
    """How long each of so many calls takes, in milliseconds, sorted."""
    found = []
    for _ in range(count):
        begun = time.perf_counter()
        call()
        found.append((time.perf_counter() - begun) * 1000)
    return sorted(found)


def middle_and_tail(found):
    return statistics.median(found), found[math.ceil(len(found) * 0.95) - 1]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("full") / "jobs.sqlite"
    bandog.connect(path).close()
    begun = time.perf_counter()
    load(path)
    took, size = time.perf_counter() - begun, path.stat().st_size / 1e9
    print(f"\nloaded in {took:.0f} s, {size:.2f} GB, debug build: {DEBUG_BUILD}")
    return path


def test_what_is_asked_often_does_not_read_the_piles(path, tmp_path):
    figures = {}

    def measure(name, call, count):
        middle, tail = middle_and_tail(times(call, count))
        figures[name] = tail
        print(f"{name:40} p50 {middle:9.3f} ms   p95 {tail:9.3f} ms   ({count} calls)")

    with bandog.connect(tmp_path / "empty.sqlite") as empty:
        empty.ingest_many(bandog.Job(queue="b", lane="b") for _ in range(TO_RUN))
        measure("empty: enqueue", lambda: empty.enqueue({"n": 1}, queue="b", lane="b", delay=DAY / 1e6), 300)
        measure("empty: claim in b, one", lambda: empty.claim(queues="b"), TO_RUN // 2)

    with bandog.connect(path) as queue:
        measure("enqueue", lambda: queue.enqueue({"n": 1}, queue="b", lane="b", delay=DAY / 1e6), 300)
        measure("claim in b, one", lambda: queue.claim(queues="b"), TO_RUN // 2)
        measure("claim in b, ten", lambda: queue.claim(queues="b", limit=10), 5)
        assert queue.claim(queues="b") == []
        measure("claim in b, none due", lambda: queue.claim(queues="b"), 50)
        measure("claim in any queue, one", queue.claim, 50)
        measure("has_pending_work", queue.has_pending_work, 50)
        measure("next_wake", queue.next_wake, 50)
        measure("stats", queue.stats, 10)
        measure("dead_letters", queue.dead_letters, 20)
        measure("dead_letters of an unknown queue", lambda: queue.dead_letters(queue="nobody"), 2)
        measure("jobs", queue.jobs, 20)
        measure("jobs, settled failed", lambda: queue.jobs(outcome="failed"), 20)
        measure("jobs, queued in queue b", lambda: queue.jobs(state="queued", queue="b", lane="b"), 2)
        measure("read", lambda: queue.read("job-5"), 50)
        measure("cancel", iter_cancel(queue), 50)
        settled = SETTLED
        for outcomes in ("completed", "failed"):
            purge = partial(queue.purge, older_than=0, outcomes=outcomes, limit=1000)
            measure(f"purge(limit=1000), {outcomes}", purge, 10)
            settled -= 10_000
        counts = queue.stats(bound=2 * SETTLED).outcomes
        assert counts["completed"] + counts["failed"] == settled
        measure("fail_lane in a, limit=1000", lambda: queue.fail_lane("a", "a", "why"), 5)
        queue.set_lane_limit("b", "b", 1000)
        measure("enqueue, lane limit 1,000", lambda: queue.enqueue(queue="b", lane="b", delay=1000), 50)
        queue.set_lane_limit("a", "a", 3_000_000)
        measure("enqueue, lane limit 3 M, 2 M queued", lambda: queue.enqueue(queue="a", lane="a", delay=1000), 3)
        queue.set_lane_limit("b", "default", 1000)
        measure("enqueue, limit of the default lane", lambda: queue.enqueue(queue="b", delay=1000), 3)

    for name in ("claim in b, one", "claim in b, ten", "claim in b, none due", "claim in any queue, one"):
        assert figures[name] < 10, name
    for name in ("has_pending_work", "next_wake", "read", "cancel"):
        assert figures[name] < 10, name
    for name in ("stats", "dead_letters", "jobs", "jobs, settled failed"):
        assert figures[name] < 500, name
    assert figures["enqueue"] < max(3 * figures["empty: enqueue"], 10)


def iter_cancel(queue):
    """A call that cancels another job each time."""
    numbers = iter(range(1000, 2000))
    return lambda: queue.cancel(f"job-{next(numbers)}")
