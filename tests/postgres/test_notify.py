"""Hosts tell each other of queued jobs: by one notification for a burst, and never in a transaction that stores them.

A worker here polls once an hour, so that whatever reaches it was told.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from processes import Child, eventually
from proxy import Proxy
from steps import Background

import bandog
from bandog import Job

if TYPE_CHECKING:
    import psycopg

HOUR = 3_600.0


class Heard:
    """What an application hears that listens on its own, by the session that told it."""

    def __init__(self, connection: psycopg.Connection[Any], channel: str) -> None:
        self.connection = connection
        connection.execute(f'LISTEN "{channel}"'.encode())

    def within(self, seconds: float) -> list[int]:
        """All that come in a time. Silence is the subject, so that it takes that long."""
        return [notice.pid for notice in self.connection.notifies(timeout=seconds)]

    def one(self) -> int:
        """The next one."""
        (notice,) = self.connection.notifies(timeout=30, stop_after=1)
        return notice.pid


@pytest.fixture
def heard(database: Any) -> Iterator[Heard]:
    with closing(database.connection()) as connection:
        yield Heard(connection, "bandog")


@contextmanager
def working(queue: bandog.Queue, **options: Any) -> Iterator[list[str]]:
    """A worker that starts jobs as soon as it hears of them: their ids."""
    started: list[str] = []
    options = {"poll": HOUR, "lease": 30.0, "concurrency": 2, **options}
    worker = bandog.Worker(queue, lambda job, _cancel: started.append(job.job_id), **options)
    worker.start()
    try:
        yield started
    finally:
        worker.stop(5.0)


def with_options(url: str, options: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{options}"


def listens(database: Any) -> list[int]:
    """Our sessions that listen: the last that they did was to begin it, to look after it, or to tell."""
    rows = database.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'bandog'"
        " AND query ~ '^LISTEN|pg_listening_channels|pg_notify'"
    )
    return [pid for (pid,) in rows]


def until_it_listens(database: Any) -> None:
    eventually(lambda: listens(database), "the worker listens")


def test_a_worker_hears_of_jobs_of_another_process(database: Any, start: Callable[..., Child]) -> None:
    with working(database.queue()) as started:
        until_it_listens(database)
        for number in range(5):
            # It leaves at once, and must be heard all the same.
            assert start("telling.py", database.url, f"job-{number}").finish() == []
            eventually(lambda number=number: f"job-{number}" in started, "the job starts", patience=20)


def test_every_kind_of_queueing_is_told(database: Any, heard: Heard) -> None:
    queue = database.queue()
    queue.ingest_many(Job(job_id=f"{number}", max_attempts=3, max_recoveries=3) for number in range(6))
    assert heard.one()
    claims = {claim.job_id: claim for claim in queue.claim(limit=4, lease=0.5)}
    steps: dict[str, Callable[[], Any]] = {
        "enqueue": lambda: queue.enqueue(job_id="new"),
        "for later": lambda: queue.enqueue(job_id="later", delay=HOUR),
        "release": lambda: queue.release(claims["0"]),
        "retry": lambda: queue.fail(claims["1"], "why", retry_in=HOUR),
        "recovery": lambda: eventually(lambda: queue.recover()[0], "the leases end"),
    }
    for name, step in steps.items():
        assert heard.within(0.05) == [], name
        step()
        assert heard.one(), name
    (claim,) = queue.claim()
    queue.fail(claim, "why", retry=False)
    assert heard.within(0.05) == []
    queue.requeue(claim.job_id)
    assert heard.one()


def test_what_queues_nothing_is_not_told(database: Any, heard: Heard) -> None:
    queue = database.queue()
    queue.ingest_many(Job(job_id=f"{number}", lane=f"{number}") for number in range(4))
    assert heard.one()
    claims = queue.claim(limit=2)
    queue.renew(claims[0])
    queue.acknowledge(claims[0])
    queue.cancel("1")
    queue.fail_lane("default", "3", "why")
    queue.set_lane_limit("default", "a", 5)
    queue.enqueue(job_id="0", lane="0")  # a replay
    queue.purge(older_than=0)
    queue.stats()
    assert heard.within(0.3) == []


@pytest.mark.parametrize("calls", [1, 10])
def test_a_burst_is_told_once(database: Any, heard: Heard, calls: int) -> None:
    """C13. One of 10,000 jobs, and several that come together: never more than one for each lane, nor for each call."""
    queue = database.queue()
    batches = [[Job(lane=f"lane-{number % 10}") for number in range(first, 10_000, calls)] for first in range(calls)]
    callers = [Background(lambda batch=batch: queue.ingest_many(batch)) for batch in batches]
    for caller in callers:
        caller.join()
    assert 1 <= len(heard.within(0.5)) <= calls


def test_many_callers_are_told_of_together_and_outside_their_transactions(
    database: Any, heard: Heard, backends: Callable[[], list[int]]
) -> None:
    """A notification in a transaction makes every other one of the server wait that sends one."""
    queue = database.queue()
    begun = time.monotonic()
    callers = [Background(lambda: [queue.enqueue() for _ in range(50)]) for _ in range(32)]
    for caller in callers:
        caller.join()
    taken = time.monotonic() - begun
    told = heard.within(0.5)
    assert 1 <= len(told) <= taken / 0.005 + 2
    (teller,) = set(told)
    assert teller in backends()
    wrote = database.execute("SELECT query FROM pg_stat_activity WHERE pid = %s", (teller,))
    assert "pg_notify" in wrote[0][0]
    assert len(backends()) == 3  # looking, ingesting, telling


def test_notifications_can_be_switched_off(database: Any, heard: Heard) -> None:
    queue = database.queue(url=with_options(database.url, "notify=0"))
    with working(queue, poll=0.05) as started:
        queue.enqueue(job_id="own")
        eventually(lambda: "own" in started, "its own job starts")
        other = database.queue(url=with_options(database.url, "notify=0"))
        other.enqueue(job_id="other")
        eventually(lambda: "other" in started, "it is found by polling")
        assert heard.within(0.2) == []
        assert listens(database) == []


def test_nobody_listens_without_a_reason(database: Any, backends: Callable[[], list[int]]) -> None:
    queue = database.queue()
    queue.enqueue()
    eventually(lambda: len(backends()) == 3, "it has told")
    calls: list[Any] = []
    before = set(listens(database))
    queue.wake.add(calls.append)
    # By what the server says: the look that follows may be one with the look at the start.
    begun = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %'"
    eventually(lambda: database.execute(begun), "it listens")
    eventually(lambda: calls, "it looks")
    queue.wake.remove(calls.append)
    queue.enqueue()
    eventually(lambda: len(listens(database)) == 1, "it tells on a new link")
    assert before.isdisjoint(listens(database))


def test_a_wake_hears_of_other_processes(database: Any, start: Callable[..., Child]) -> None:
    calls: list[Any] = []
    database.queue(wake=calls.append)
    until_it_listens(database)
    eventually(lambda: len(calls) >= 2, "it has looked after it began to listen")
    before = len(calls)
    start("telling.py", database.url, "job").finish()
    eventually(lambda: len(calls) > before and calls[-1] is not None, "it was woken", patience=20)


def test_a_host_does_not_hear_itself(database: Any) -> None:
    calls: list[Any] = []
    queue = database.queue(wake=calls.append)
    until_it_listens(database)
    eventually(lambda: len(calls) >= 2, "it has looked after it began to listen")
    before = len(calls)
    queue.enqueue()
    eventually(lambda: len(calls) > before, "it was woken")
    deadline = time.monotonic() + 0.3
    eventually(lambda: time.monotonic() > deadline, "time passes")
    assert len(calls) == before + 1


def test_the_channel_is_that_of_the_schema(database: Any, heard: Heard) -> None:
    schema = 'We"ird ' + "x" * 56
    assert len(schema) == 63
    database.migrate(schema)
    with closing(database.connection()) as connection:
        other = Heard(connection, schema.replace('"', '""'))
        with working(database.queue(schema=schema)) as started:
            until_it_listens(database)
            database.queue(schema=schema).enqueue(job_id="job")
            eventually(lambda: started == ["job"], "it heard", patience=20)
        assert other.one()
    assert heard.within(0.1) == []


def heard_again(producer: bandog.Queue, started: list[str], patience: float) -> None:
    """Jobs are heard of again, each by itself."""
    numbers = itertools.count()

    def is_heard() -> bool:
        job_id = f"after-{time.monotonic_ns()}-{next(numbers)}"
        producer.enqueue(job_id=job_id)
        deadline = time.monotonic() + 0.2
        while time.monotonic() < deadline:
            if job_id in started:
                return True
            time.sleep(0.005)
        return False

    eventually(is_heard, "it hears again", patience)


def through(database: Any, proxy: Proxy) -> bandog.Queue:
    """A queue whose listener goes through a proxy, and nothing else."""
    return database.queue(url=with_options(database.url, f"listen_host=127.0.0.1&listen_port={proxy.port}"))


@pytest.mark.parametrize("how", ["kill", "cut", "swallow", "stall"])
def test_a_worker_hears_again_after_its_listener_broke(database: Any, how: str) -> None:
    """With `swallow` and `stall` nothing says that the link is dead. It polls meanwhile."""
    producer = database.queue()
    with (
        Proxy(database.url) as proxy,
        working(through(database, proxy), poll=1.0) as started,
    ):
        heard_again(producer, started, 20)
        if how == "kill":
            for pid in listens(database):
                database.execute("SELECT pg_terminate_backend(%s)", (pid,))
        else:
            getattr(proxy, how)()
            for number in range(3):
                producer.enqueue(job_id=f"{number}")
                eventually(lambda number=number: f"{number}" in started, "it is found by polling", patience=10)
            proxy.mend()
        heard_again(producer, started, 30)


def test_a_worker_whose_listener_cannot_connect_rests(database: Any) -> None:
    """Trying takes next to nothing, and the log stays readable."""
    producer = database.queue()
    with Proxy(database.url) as proxy:
        proxy.cut()
        with working(through(database, proxy), poll=0.5) as started:
            begun, used = time.monotonic(), time.process_time()
            for number in range(6):
                producer.enqueue(job_id=f"{number}")
                eventually(lambda number=number: f"{number}" in started, "it is found by polling", patience=10)
            # This process waits in short steps too, which takes more than all of the worker.
            assert time.process_time() - used < 0.5 * (time.monotonic() - begun)
            proxy.mend()
            heard_again(producer, started, 30)
