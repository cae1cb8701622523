"""The server becomes read-only, and another one takes over: no link that led to the first one stays there."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest
from own_server import OwnServer
from processes import PATIENCE, eventually
from steps import Background

import bandog
from bandog import Completed, Job

if TYPE_CHECKING:
    from journal import Journal, Running

HOUR = 3_600.0


@pytest.fixture
def server() -> Iterator[OwnServer]:
    with OwnServer(listen="127.0.0.1") as server:
        bandog.migrate(server.url)
        yield server


@pytest.fixture
def standby(server: OwnServer) -> Iterator[OwnServer]:
    """Follows the server, and may be read."""
    with OwnServer(listen="127.0.0.1", standby_of=server) as standby:
        eventually(lambda: is_level(server, standby), "the standby follows")
        yield standby


def is_level(server: OwnServer, standby: OwnServer) -> bool:
    """Whether the standby has all that the server has."""
    ((written,),) = server.execute("SELECT pg_current_wal_lsn()::text")
    return standby.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (written,)) == [(True,)]


def both(*servers: OwnServer) -> str:
    places = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return f"postgresql://postgres@{places}/postgres?target_session_attrs=read-write"


def retire(server: OwnServer, standby: OwnServer) -> None:
    """As a planned switch is made: no more writes, all that was written goes over, and the standby takes its place."""
    server.set("default_transaction_read_only", "on")
    writing = "SELECT 1 FROM pg_stat_activity WHERE backend_xid IS NOT NULL"
    eventually(lambda: server.execute(writing) == [], "nobody writes any more")
    eventually(lambda: is_level(server, standby), "the standby has everything")
    assert standby.execute("SELECT pg_promote()") == [(True,)]


def pending(queue: bandog.Queue) -> bool:
    with suppress(bandog.StoreError):
        return queue.has_pending_work()
    return True


def stored(queue: bandog.Queue, jobs: list[Job]) -> bool:
    """As a producer that repeats what it has no answer to."""
    with suppress(bandog.StoreError):
        assert {admission.kind for admission in queue.ingest_many(jobs)} <= {"admitted", "duplicate"}
        return True
    return False


def test_work_goes_on_where_writing_is_allowed(
    server: OwnServer, standby: OwnServer, run_worker: Callable[..., Running], journal: Journal
) -> None:
    url, jobs = both(server, standby), 600
    workers = [
        run_worker(url, how, concurrency=4, lease=30, poll=0.3, grace=5.0)
        for how in ("threads", "coroutines", "processes")
    ]
    with bandog.connect(url) as queue:
        for number in range(jobs // 20):
            batch = [
                Job(job_id=f"job-{number}-{each}", payload={"do": "effect", "seconds": 0.02}, max_recoveries=5)
                for each in range(20)
            ]
            eventually(lambda batch=batch: stored(queue, batch), "jobs are admitted")
            if number == jobs // 60:
                retire(server, standby)
        eventually(lambda: not pending(queue), "all jobs get their outcome", 2 * PATIENCE)
        records = queue.jobs(limit=1_000).jobs
        late = queue.enqueue({"do": "effect"}, job_id="late").job
        eventually(lambda: queue.read(late.job_id).state == "settled", "they are all at the new one")
    for worker in workers:
        worker.tell(signal.SIGTERM)
    for worker in workers:
        assert worker.end(within=20) == 0
        assert "Traceback" not in worker.log
    assert len(records) == jobs
    effects = Counter((note["job"], note["attempt"]) for note in journal.notes("effect"))
    assert set(effects.values()) == {1}
    for record in records:
        assert record.outcome == Completed({"attempt": record.attempts}), record
        assert (record.job_id, record.attempts) in effects
        assert record.recoveries == 0, "no lease ended"
    # Nobody has stayed behind, where jobs are as they were.
    ours = "SELECT query FROM pg_stat_activity WHERE application_name = 'bandog'"
    assert server.execute(ours) == []


def test_a_host_that_only_waits_follows_too(server: OwnServer, standby: OwnServer) -> None:
    """It writes nothing, so that nothing is refused to it; and the old server still answers what it reads."""
    url = both(server, standby)
    started: list[str] = []
    with ExitStack() as stack:
        connect = [stack.enter_context(bandog.connect(url + option)) for option in ("", "&notify=0")]
        for queue, name, poll in zip(connect, ("told", "polls"), (HOUR, 0.3), strict=True):
            worker = bandog.Worker(queue, lambda job, _: started.append(job.job_id), queues=name, poll=poll, lease=30)
            worker.start()
            stack.callback(worker.stop, 5.0)
        producer = stack.enter_context(bandog.connect(url))
        for name in ("told", "polls"):
            producer.enqueue(job_id=f"first-{name}", queue=name)
        eventually(lambda: len(started) == 2, "both are at work")
        retire(server, standby)
        for name in ("told", "polls"):
            batch = [Job(job_id=f"second-{name}", queue=name)]
            eventually(lambda batch=batch: stored(producer, batch), "the new one takes jobs")
        eventually(lambda: len(started) == 4, f"both find jobs there: {started}")
        assert sorted(started) == ["first-polls", "first-told", "second-polls", "second-told"]


def test_a_server_that_takes_no_writes_for_a_while_loses_nothing(server: OwnServer) -> None:
    """The only one there is. Direct calls say why they fail; a worker waits."""
    started: list[str] = []
    with bandog.connect(server.url) as queue, bandog.connect(server.url) as producer:
        producer.ingest_many(Job(job_id=f"{number}") for number in range(3))
        (claim,) = queue.claim(lease=60)
        server.set("default_transaction_read_only", "on")
        calls: list[Callable[[], object]] = [
            lambda: queue.claim(lease=1.0),
            lambda: queue.acknowledge(claim),  # may take half of the latest lease
            lambda: queue.renew(claim, lease=1.0),
            lambda: queue.cancel("2"),
        ]

        def is_refused(call: Callable[[], object]) -> bool:
            with pytest.raises(bandog.StoreFailed, match="read-only"):
                call()
            return True

        eventually(lambda: is_read_only(server), "it is read-only for new sessions")
        for call in calls:
            assert is_refused(call)
        producing = Background(lambda: producer.enqueue(job_id="new"))  # takes as long as it must, up to half a minute
        assert queue.read(claim.job_id).state == "running"
        worker = bandog.Worker(queue, lambda job, _: started.append(job.job_id), poll=0.2, lease=30)
        worker.start()
        eventually(lambda: worker.stats().problem, "it says what is wrong")
        assert "read-only" in str(worker.stats().problem)
        assert started == []
        server.set("default_transaction_read_only", "off")
        producing.join()
        eventually(lambda: len(started) == 3, "it goes on by itself")
        assert queue.acknowledge(claim).kind == "completed"
        eventually(lambda: not queue.has_pending_work(), "all are done")
        worker.stop(5.0)
        assert queue.stats(bound=9).outcomes["completed"] == 4


def is_read_only(server: OwnServer) -> bool:
    return server.execute("SHOW default_transaction_read_only") == [("on",)]
