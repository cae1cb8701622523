"""Packets are lost without a word while a call is under way (C18): it gives up in time, and nothing is done twice."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from processes import eventually
from proxy import Proxy
from steps import Background

import bandog
from bandog import Completed

LEASE = 4.0
MARGIN = 1.0
"""Seconds that a busy machine may add to a deadline."""


@pytest.fixture
def queue(database: Any, proxy: Proxy) -> bandog.Queue:
    """One whose links are up, and lead through the proxy."""
    queue = database.queue(url=proxy.url)
    queue.enqueue(job_id="first")
    (claim,) = queue.claim(lease=LEASE)
    queue.renew(claim, lease=LEASE)
    assert queue.acknowledge(claim).kind == "completed"
    return queue


def gives_up(call: Any) -> None:
    """A call fails at half of the lease, and says that its end is not known."""
    begun = time.monotonic()
    with pytest.raises(bandog.StoreFailed, match="not known|cannot connect"):
        call()
    assert time.monotonic() - begun < LEASE / 2 + MARGIN


@pytest.mark.parametrize("how", ["stall", "mute", "swallow"])
def test_a_claim_gives_up_and_what_it_may_have_claimed_comes_back(queue: bandog.Queue, proxy: Proxy, how: str) -> None:
    queue.enqueue(job_id="job")
    getattr(proxy, how)()
    gives_up(lambda: queue.claim(lease=LEASE))
    proxy.mend()

    def claimed() -> list[bandog.ClaimedJob]:
        with suppress(bandog.StoreFailed):
            return queue.claim(lease=LEASE)
        return []

    begun = time.monotonic()
    (claim,) = eventually(claimed, "it can be claimed")
    assert claim.job_id == "job"
    if how != "swallow":
        # It was claimed by nobody, which was noticed long before the lease could end.
        assert time.monotonic() - begun < LEASE
        record = queue.read("job")
        assert (record.attempts, record.given_back, record.recoveries) in {(1, 0, 0), (2, 1, 0)}
    assert queue.acknowledge(claim).kind == "completed"
    assert claimed() == []


def test_a_renewal_gives_up_and_the_next_one_has_a_link_of_its_own(queue: bandog.Queue, proxy: Proxy) -> None:
    queue.enqueue(job_id="job")
    (claim,) = queue.claim(lease=30)
    proxy.swallow()
    gives_up(lambda: queue.renew(claim, lease=LEASE))
    proxy.mend()
    assert queue.renew(claim, lease=30) is None
    assert queue.acknowledge(claim).kind == "completed"


@pytest.mark.parametrize("how", ["stall", "mute", "swallow"])
def test_a_settlement_gives_up_and_is_settled_by_reading_again(
    database: Any, queue: bandog.Queue, proxy: Proxy, how: str
) -> None:
    """`stall`: it is carried out after the call was given up; `mute`: before; `swallow`: never."""
    queue.enqueue(job_id="job", max_attempts=3)
    (claim,) = queue.claim(lease=LEASE)
    direct = database.queue()
    keeping = Background(lambda: keep(direct, claim))
    getattr(proxy, how)()
    gives_up(lambda: queue.acknowledge(claim, result="done"))
    proxy.mend()
    assert queue.acknowledge(claim, result="done").kind == "completed"
    keeping.join()
    record = queue.read("job")
    assert (record.outcome, record.attempts) == (Completed("done"), 1)
    assert queue.stats(bound=9).outcomes["completed"] == 2


def keep(queue: bandog.Queue, claim: bandog.ClaimedJob) -> None:
    """Renew a claim until it is settled."""
    with suppress(bandog.StaleClaim):
        while queue.read(claim.job_id).state == "running":
            queue.renew(claim, lease=LEASE)
            time.sleep(0.2)


def test_a_worker_declares_a_lease_lost_when_it_ends_and_not_later(
    database: Any, queue: bandog.Queue, proxy: Proxy
) -> None:
    aborted: list[tuple[float, str | None]] = []

    def execute(job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> None:
        if job.attempt == 1:
            cancel.wait(60)
            aborted.append((time.monotonic(), cancel.reason))

    queue.enqueue(job_id="job", max_recoveries=2)
    direct = database.queue()
    worker = bandog.Worker(queue, execute, lease=2.0, poll=0.2, concurrency=1)
    worker.start()
    eventually(lambda: direct.read("job").state == "running", "it runs")
    proxy.swallow()
    since = time.monotonic()
    eventually(lambda: aborted, "the lease is given up")
    ((at, reason),) = aborted
    assert reason == "lease_lost"
    assert at - since < 2.0 + MARGIN
    # Nobody else had it before.
    assert direct.read("job").attempts == 1
    proxy.mend()
    eventually(lambda: direct.read("job").state == "settled", "it is run again")
    record = direct.read("job")
    assert (record.outcome, record.attempts, record.recoveries) == (Completed(), 2, 1)
    worker.stop(5.0)


@pytest.mark.parametrize("how", ["stall", "mute", "swallow"])
def test_a_worker_records_what_ended_meanwhile_once(database: Any, queue: bandog.Queue, proxy: Proxy, how: str) -> None:
    starts: list[str] = []
    broken: list[bool] = []

    def execute(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> Completed:
        starts.append(job.job_id)
        eventually(lambda: broken, "the network is down")
        return Completed(job.job_id)

    ids = [f"{number}" for number in range(5)]
    queue.ingest_many(bandog.Job(job_id=job_id) for job_id in ids)
    direct = database.queue()
    # A lease that lasts through it: what is shown is that the report is not lost, and not made twice.
    worker = bandog.Worker(queue, execute, lease=8.0, poll=0.2, concurrency=5)
    worker.start()
    eventually(lambda: len(starts) == 5, "all run")
    getattr(proxy, how)()
    broken.append(True)
    # The first report is given up after half of the lease, and the lease with it where it was not renewed.
    eventually(lambda: worker.stats().problem is not None, "the report is given up")
    proxy.mend()
    eventually(lambda: not direct.has_pending_work(), "all are recorded")
    worker.stop(5.0)
    assert {job_id: direct.read(job_id).outcome for job_id in ids} == {job_id: Completed(job_id) for job_id in ids}
    if how != "swallow":
        assert sorted(starts) == ids


@pytest.mark.parametrize("how", ["stall", "swallow"])
def test_closing_does_not_wait_for_a_server_that_is_silent(queue: bandog.Queue, proxy: Proxy, how: str) -> None:
    queue.enqueue(job_id="job")
    (claim,) = queue.claim(lease=120)
    getattr(proxy, how)()
    calls = [
        Background(call)
        for call in (
            lambda: pytest.raises(bandog.StoreError, queue.enqueue),
            lambda: pytest.raises(bandog.StoreError, queue.stats),
            lambda: pytest.raises(bandog.StoreError, queue.claim),
            lambda: pytest.raises(bandog.StoreError, queue.acknowledge, claim),
            lambda: pytest.raises(bandog.StoreError, queue.recover),
        )
    ]
    begun = time.monotonic()
    deadline = begun + 0.3
    eventually(lambda: time.monotonic() > deadline, "the calls are under way")
    queue.close()
    # Three seconds of patience, and a goodbye.
    assert time.monotonic() - begun < 4 + MARGIN
    for call in calls:
        call.join()


def test_a_worker_stops_in_time_while_the_server_is_silent(queue: bandog.Queue, proxy: Proxy) -> None:
    queue.enqueue(job_id="job")
    started: list[str] = []
    worker = bandog.Worker(queue, lambda job, cancel: (started.append(job.job_id), cancel.wait(60))[0], lease=60.0)
    worker.start()
    eventually(lambda: started, "it runs")
    proxy.swallow()
    begun = time.monotonic()
    worker.stop(1.0)
    eventually(lambda: worker.stats().state == "stopped", "it has stopped")
    queue.close()
    assert time.monotonic() - begun < 1 + 2 + 4 + MARGIN
