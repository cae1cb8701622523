"""A worker dies with three claims: whoever comes next gets the jobs once the leases have ended, whatever its name is.

There is no table of workers that could be pruned or kept alive: a claim is lost by its lease alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from processes import Child, eventually

import bandog

if TYPE_CHECKING:
    from fix_target import Target

LEASE = 0.5


def lose_three_claims(target: Target, start: Callable[..., Child]) -> list[tuple[str, str]]:
    """The claims of a worker `w1` that was killed: job ids with lease tokens."""
    with target.connect() as queue:
        queue.ingest_many([bandog.Job(job_id=f"job-{number}", payload=number) for number in range(3)])
    worker = start("errand.py")
    assert worker.hear() == "ready"
    assert worker.ask(f"open {target.url}") == "opening"
    assert worker.hear() == "open"
    words = worker.ask(f"claim w1 {LEASE} 3").split()
    worker.kill()
    claims = list(zip(words[::2], words[1::2], strict=True))
    assert sorted(job for job, _ in claims) == ["job-0", "job-1", "job-2"]
    return claims


def takes_over(successor: Child, target: Target, name: str, lost: list[tuple[str, str]]) -> None:
    """`successor`, already up, gets all three jobs by claiming alone, and the old claims are worth nothing."""
    # The lease is long, so that the jobs do not go round a second time on a slow machine.
    claimed = str(eventually(lambda: successor.ask(f"claim {name} 30 3"), "the lost jobs come back")).split()
    tokens = dict(zip(claimed[::2], claimed[1::2], strict=True))
    assert sorted(tokens) == ["job-0", "job-1", "job-2"], "one claim's sweep brings all of them"
    for job, token in lost:
        assert successor.ask(f"use {job} {token}") == "stale stale stale"
    rows = target.select("SELECT worker, attempts, recoveries FROM bandog_lease")
    assert rows == [(name, 2, 1)] * 3
    for job, token in tokens.items():
        assert successor.ask(f"use {job} {token}").split()[:2] == ["accepted", "accepted"]
    successor.finish()
    with target.connect() as queue:
        records = [queue.read(job) for job, _ in lost]
        assert [record.outcome for record in records] == [bandog.Completed()] * 3
        assert [record.attempts for record in records] == [2, 2, 2]
    target.assert_sound()


@pytest.mark.parametrize("name", ["w2", "w1"])
def test_a_successor_of_any_name_takes_over(target: Target, start: Callable[..., Child], name: str) -> None:
    lost = lose_three_claims(target, start)
    successor = start("errand.py")
    assert successor.hear() == "ready"
    assert successor.ask(f"open {target.url}") == "opening"
    assert successor.hear() == "open"
    takes_over(successor, target, name, lost)


def test_a_successor_long_afterwards_takes_over_at_once(target: Target, start: Callable[..., Child]) -> None:
    lost = lose_three_claims(target, start)
    # Nobody is there for ten leases. What is waited for is the time itself.
    over = time.monotonic() + 10 * LEASE
    eventually(lambda: time.monotonic() > over, "ten leases")
    assert target.select("SELECT count(*) FROM bandog_lease") == [(3,)], "nobody was there to recover them"
    successor = start("errand.py")
    assert successor.hear() == "ready"
    assert successor.ask(f"open {target.url}") == "opening"
    assert successor.hear() == "open"
    first = successor.ask("claim w1 30 1")
    assert first, "the very first claim recovers and claims"
    # Hand it back, so that the rest is as in the other two cases.
    job, token = first.split()
    assert target.select("SELECT count(*) FROM bandog_lease") == [(1,)]
    with target.connect() as queue:
        queue.acknowledge((job, token))
        others = queue.claim("w1", limit=3)
        assert len(others) == 2
        for other in others:
            queue.acknowledge(other)
        for job_id, old in lost:
            with pytest.raises(bandog.StaleClaim):
                queue.renew((job_id, old))
            with pytest.raises(bandog.StaleClaim):
                queue.acknowledge((job_id, old))
            assert queue.read(job_id).attempts == 2
    target.assert_sound()


def test_an_old_claim_is_stale_before_anybody_recovers_it(target: Target, start: Callable[..., Child]) -> None:
    lost = lose_three_claims(target, start)
    with target.connect() as queue:
        job, token = lost[0]
        over = time.monotonic() + LEASE
        eventually(lambda: time.monotonic() > over, "one lease")
        with pytest.raises(bandog.StaleClaim):
            queue.settle((job, token), bandog.Snooze(60))
        assert queue.read(job).state == "running", "expired, and not yet recovered: the fence is the lease, not the row"
        recovered, interrupted = queue.recover()
        assert sorted(recovered) == ["job-0", "job-1", "job-2"]
        assert interrupted == ()
