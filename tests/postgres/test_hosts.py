"""A host loses its network, with or without being told: another one takes its jobs over, and it comes back by itself.

Each host is a network namespace of its own, as is the server.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from journal import Running
from namespaces import Cable, Namespace, hosts, why_there_are_none
from own_server import OwnServer
from processes import PATIENCE, Child, eventually

import bandog
from bandog import Completed

if TYPE_CHECKING:
    from journal import Journal

LEASE = 3.0
POLL = 0.3
MARGIN = 3.0
"""Seconds that a busy machine may add."""

BUSY = LEASE + POLL + MARGIN
"""How long a job takes: whoever lost its claim still runs it when another host has begun."""


class Sites:
    """A server, and hosts that run workers."""

    def __init__(self, server: OwnServer, others: list[tuple[Namespace, Cable]], start: Any, journal: Journal) -> None:
        self.server = server
        self.cables = [cable for _, cable in others]
        self._namespaces = [namespace for namespace, _ in others]
        self._start = start
        self._journal = journal

    def url(self, number: int) -> str:
        return f"postgresql://postgres@{self.cables[number].server_address}:{self.server.port}/postgres"

    def work(self, number: int, how: str, **options: Any) -> Running:
        """A worker on a host."""
        namespace = self._namespaces[number].path
        script = Path(__file__).parent.parent / "worker_process"

        def begin(name: str, *arguments: object) -> Child:
            child: Child = self._start("in_namespace.py", namespace, script / name, *arguments)
            return child

        where: Any = self.url(number)
        return Running(begin, where, how, options, self._journal)


@pytest.fixture(scope="module")
def network() -> Iterator[tuple[OwnServer, list[tuple[Namespace, Cable]]]]:
    if reason := why_there_are_none():
        pytest.skip(reason)
    with hosts(2) as (place, others), OwnServer(listen="*", within=place.within) as server:
        yield server, others


@pytest.fixture
def sites(
    network: tuple[OwnServer, list[tuple[Namespace, Cable]]], start: Callable[..., Child], journal: Journal
) -> Sites:
    """Whole cables, and no jobs."""
    server, others = network
    for _, cable in others:
        cable.mend()
    server.execute("DROP SCHEMA IF EXISTS bandog CASCADE")
    bandog.migrate(server.url)
    return Sites(server, others, start, journal)


@pytest.mark.parametrize(("how", "fault"), [("threads", "cut"), ("coroutines", "jam")])
def test_a_host_that_is_cut_off_loses_its_jobs_to_another_one(
    sites: Sites, journal: Journal, how: str, fault: str
) -> None:
    """Both are told, as far as anybody can: it that it lost them, the other one as soon as the leases have ended."""
    options = {"lease": LEASE, "poll": POLL, "concurrency": 3, "grace": 2.0}
    with bandog.connect(sites.server.url) as queue:
        first = sites.work(0, how, queues=["shared", "first"], **options)
        for do in ("obey", "sleep"):  # one that hears of it, and one that is deaf to it
            queue.enqueue({"do": do, "seconds": BUSY}, job_id=do, queue="shared", max_recoveries=2)
        journal.await_start("obey", "sleep")
        second = sites.work(1, how, queues=["shared", "second"], **options)
        getattr(sites.cables[0], fault)()
        broken_at = time.time()
        queue.enqueue({"do": "effect"}, job_id="meanwhile", queue="second")
        eventually(lambda: journal.attempts("obey")[1:] and journal.attempts("sleep")[1:], "another host runs them")
        taken_over = [note for do in ("obey", "sleep") for note in journal.notes("start", do)[1:]]
        for note in taken_over:
            assert (note["attempt"], note["pid"]) == (2, second.pid)
            # Recovered within the lease and one look of a worker that is free.
            assert note["at"] - broken_at < LEASE + POLL + MARGIN
        (lost,) = eventually(lambda: journal.notes("end", "obey"), "the first host was told by itself")
        assert (lost["attempt"], lost["pid"], lost["reason"]) == (1, first.pid, "lease_lost")
        assert lost["at"] - broken_at < LEASE + MARGIN
        # The deaf one ends while its host is still cut off, and is reported when nobody wants to hear of it any more.
        eventually(lambda: journal.notes("end", "sleep"), "the deaf one ends")
        eventually(lambda: first.ask("stats")["problem"], "it cannot be reported")
        eventually(lambda: queue.read("meanwhile").state == "settled", "the other host is not held up")
        sites.cables[0].mend()
        queue.enqueue({"do": "effect"}, job_id="after", queue="first")
        eventually(lambda: queue.read("after").state == "settled", "the first host is back, without a restart")
        eventually(lambda: first.ask("stats")["stale"] >= 1, "its late report is stale")
        eventually(lambda: not queue.has_pending_work(), "all is done")
        for do in ("obey", "sleep"):
            record = queue.read(do)
            assert (record.outcome, record.attempts, record.recoveries) == (Completed(), 2, 1), record
        for worker in (first, second):
            worker.tell(signal.SIGTERM)
        for worker in (first, second):
            assert worker.end(within=2 + 2 + MARGIN) == 0
            assert "Traceback" not in worker.log
        stored = queue.stats(bound=9).outcomes["completed"]
        assert stored == 4


@pytest.mark.parametrize("fault", ["cut", "jam"])
def test_a_short_break_costs_nothing(sites: Sites, journal: Journal, fault: str) -> None:
    """Shorter than what is left of the leases: nothing is run again."""
    lease = 4 * PATIENCE
    with bandog.connect(sites.server.url) as queue:
        worker = sites.work(0, "threads", lease=lease, poll=POLL, concurrency=2, grace=2.0)
        queue.enqueue({"do": "effect", "seconds": 1.0}, job_id="during")
        queue.enqueue({"do": "effect", "seconds": 4.0}, job_id="after")
        journal.await_start("during", "after")
        getattr(sites.cables[0], fault)()
        eventually(lambda: journal.notes("end", "during"), "one ends while it is broken")
        sites.cables[0].mend()
        eventually(lambda: not queue.has_pending_work(), "both are recorded")
        for job_id in ("during", "after"):
            record = queue.read(job_id)
            assert (record.outcome, record.attempts) == (Completed({"attempt": 1}), 1)
            assert journal.attempts(job_id) == [1]
        worker.tell(signal.SIGTERM)
        assert worker.end(within=2 + 2 + MARGIN) == 0


@pytest.mark.parametrize("noticed", [True, False])
def test_a_host_that_is_cut_off_stops_in_time(sites: Sites, journal: Journal, noticed: bool) -> None:
    """Whether it has noticed before, or finds nobody to say goodbye to."""
    grace = 1.0
    with bandog.connect(sites.server.url) as queue:
        worker = sites.work(0, "threads", lease=LEASE, poll=POLL, concurrency=2, grace=grace)
        queue.enqueue({"do": "obey", "seconds": PATIENCE}, job_id="obeys", max_recoveries=1)
        journal.await_start("obeys")
        sites.cables[0].jam()
        if noticed:
            eventually(lambda: journal.notes("end", "obeys"), "it was told that its lease is lost")
            eventually(lambda: worker.ask("stats")["problem"], "it knows")
        worker.tell(signal.SIGTERM)
        # Closing gives a server three seconds that answered before.
        assert worker.end(within=grace + 2 + (0 if noticed else 3) + MARGIN) == 0
        assert "Traceback" not in worker.log
        assert queue.read("obeys").state == "running", "nobody has said what became of it"
