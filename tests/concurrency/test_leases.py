"""A claim is kept whatever the executor does to the interpreter, and whoever locks the store for a while (C03)."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest
from processes import PATIENCE, Child, eventually
from steps import Background

import bandog

if TYPE_CHECKING:
    from fix_target import Target
    from processes import Look


class Witness:
    """Looks from outside at the end of the only lease, and tries to take the job."""

    def __init__(self, target: Target, look: Look, queue: bandog.Queue) -> None:
        self.target = target
        self.ask = look
        self.queue = queue
        self.ends: list[int] = []
        self.pause = 0.0
        """The longest time between two looks, which is this machine's affair."""
        self._looked = time.monotonic()

    def look(self) -> None:
        now = time.monotonic()
        self.pause, self._looked = max(self.pause, now - self._looked), now
        leases = self.target.leases(self.ask)
        if not leases:
            return  # settled
        ((end, left),) = leases
        assert left > 0, f"the lease lapsed {-left} µs ago"
        if not self.ends or self.ends[-1] != end:
            self.ends.append(end)

    def steal(self) -> None:
        """What every other worker does all the time."""
        assert self.queue.recover() == ((), ())
        assert self.queue.claim("thief") == []


@pytest.mark.parametrize("lease", [0.5, 1.0])
@pytest.mark.parametrize("how", ["spin", "call", "other"])
def test_a_lease_is_kept_while_the_interpreter_is_held(
    target: Target, start: Callable[..., Child], how: str, lease: float
) -> None:
    seconds = 4 * lease
    hog = start("hog.py", target.url, how, lease, seconds)
    assert hog.hear() == "running"
    with target.connect(busy_timeout=PATIENCE) as queue, target.looking() as look:
        witness = Witness(target, look, queue)
        hog.say("go")

        def over() -> bool:
            witness.look()
            witness.steal()
            return not hog.lines.empty()

        eventually(over, "the executor returns")
        facts = json.loads(hog.hear())
        hog.finish()
        assert facts == {"starts": 1, "attempt": 1, "aborted": None, "tick": "settled"}
        record = queue.read("kept")
        assert (record.outcome, record.attempts, record.recoveries) == (bandog.Completed(), 1, 0)
    gaps = [(after - before) / 1e6 for before, after in zip(witness.ends, witness.ends[1:], strict=False)]
    print(
        f"{how}, lease {lease} s: {len(witness.ends)} ends of the lease seen, largest step {max(gaps):.3f} s,"
        f" longest time without a look {witness.pause:.3f} s"
    )
    assert len(witness.ends) > 4, "it was not renewed again and again"
    # Due after a quarter; a machine that let this process wait may have let that one wait as long.
    assert max(gaps) <= lease / 2 + witness.pause


def test_a_refused_renewal_is_tried_again_while_the_interpreter_is_held(
    target: Target, start: Callable[..., Child]
) -> None:
    """A lock makes renewals run into their timeout; saying so in a log must not wait for the interpreter."""
    hog = start("hog.py", target.url, "busy", 2.0, 8.0)
    assert hog.hear() == "running"
    with target.connect(busy_timeout=PATIENCE) as queue, target.looking() as look:
        witness = Witness(target, look, queue)
        hog.say("go")
        # Longer than a renewal may wait, shorter than the lease allows; then free for a while.
        while hog.lines.empty():
            look(target.lock)
            free_at = time.monotonic() + 0.7
            eventually(lambda free_at=free_at: time.monotonic() > free_at, "the lock is held")
            look("COMMIT")
            lock_at = time.monotonic() + 0.3
            eventually(lambda lock_at=lock_at: time.monotonic() > lock_at, "the lock is free")
            witness.look()
            witness.steal()
        facts = json.loads(hog.hear())
        hog.finish()
    assert facts == {"starts": 1, "attempt": 1, "aborted": None, "tick": "settled"}


@pytest.mark.parametrize("target", ["postgres"], indirect=True)
def test_leases_are_kept_while_every_executor_has_a_transaction_open(target: Target) -> None:
    """Each with a connection of its own: renewals use none of those, and wait for no row that they hold."""
    lease, hands = 1.0, 8
    seconds = 4 * lease
    aborted: list[object] = []
    with target.connect() as queue, target.connect() as thief:
        queue.ingest_many([bandog.Job(job_id=f"job-{number}") for number in range(hands)])

        def execute(job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> None:
            with closing(psycopg.connect(target.url)) as connection:
                queue.ingest(bandog.Job(job_id=f"of {job.job_id}", queue="later"), connection=connection)
                aborted.append(cancel.reason if cancel.wait(seconds) else None)
                queue.acknowledge(job, connection=connection)
                connection.commit()

        runtimes = [bandog.Watchdog(queue, execute, queues="default", lease=lease) for _ in range(hands)]
        ticking = [Background(runtime.tick) for runtime in runtimes]

        def over() -> bool:
            assert thief.recover() == ((), ())
            assert thief.claim("thief", queues="default") == []
            return len(aborted) == hands

        eventually(lambda: thief.stats().queues["default"].running == hands, "all are at work")
        eventually(over, "the executors return")
        assert [tick.join().kind for tick in ticking] == ["settled"] * hands
        assert aborted == [None] * hands
        assert {record.attempts for record in queue.jobs(state="settled")} == {1}
    assert target.select("SELECT kind, attempts, recoveries, count(*) FROM bandog_outcome GROUP BY 1, 2, 3") == [
        ("completed", 1, 0, hands)
    ]
    target.assert_sound()


def keep_running(queue: bandog.Queue, lease: float, over: threading.Event) -> tuple[threading.Thread, list]:
    """A job that runs until it is told to stop or its claim is lost; what became of it is appended."""
    started = threading.Event()
    facts: list = []

    def execute(_job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> None:
        started.set()
        eventually(lambda: over.is_set() or cancel.aborted, "the end of the job")
        facts.append(cancel.reason)

    def tick() -> None:
        facts.append(bandog.Watchdog(queue, execute, lease=lease).tick().kind)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    assert started.wait(PATIENCE)
    return thread, facts


@pytest.mark.parametrize("timeout", [0.1, 60])
def test_a_renewal_goes_through_once_the_lock_is_free(target: Target, timeout: float) -> None:
    over = threading.Event()
    with target.connect(busy_timeout=timeout) as queue, target.looking() as look:
        queue.enqueue(job_id="kept")
        thread, facts = keep_running(queue, 4.0, over)
        for _ in range(2):
            look(target.lock)
            ((before, _left),) = target.leases(look)
            # Past the moment at which it was due, a quarter of the lease before; well before its end.
            due = time.monotonic() + 1.8
            eventually(lambda due=due: time.monotonic() > due, "a renewal is due")
            ((after, _left),) = target.leases(look)
            assert after == before
            look("COMMIT")
            eventually(lambda before=before: target.leases(look)[0][0] > before, "the renewal goes through")
        over.set()
        thread.join(PATIENCE)
        assert facts == [None, "settled"]
        assert queue.read("kept").attempts == 1
    target.assert_sound()


def test_a_lock_that_outlasts_the_lease_costs_the_claim(target: Target) -> None:
    """Then the holder is told by its own clock, before anybody else can have the job."""
    with target.connect(busy_timeout=60) as queue, target.looking() as look:
        queue.enqueue(job_id="kept")
        thread, facts = keep_running(queue, 0.5, threading.Event())
        look(target.lock)
        eventually(lambda: facts, "the executor is told")
        assert facts == ["lease_lost"]
        # By its own clock, that is: a server counts from when it claimed, the holder from when it asked.
        eventually(lambda: target.leases(look)[0][1] <= 0, "the lease ends")
        look("COMMIT")
        thread.join(PATIENCE)
        assert facts == ["lease_lost", "stale"]
        recovered = queue.recover()
        record = queue.read("kept")
        assert (recovered[0] == ("kept",)) or record.recoveries == 1
        assert record.outcome is None
        (again,) = queue.claim()
        assert again.attempt == 2
        queue.acknowledge(again)
    target.assert_sound()
