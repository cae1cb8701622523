"""Claimed ahead: what was not started is handed back uncharged, cancelled unseen, and keeps nobody waiting."""

import threading
import time
from contextlib import closing

from steps import wait_until

import bandog
from bandog import Cancelled, Completed


def held_up(bench, count, *, prefetch=50, **options):
    """A worker whose only slot is taken, and ``count`` jobs that it has claimed ahead."""
    bench.ingest("holds", "first", budget={"priority": 9})
    worker = bench.start(prefetch=prefetch, **options)
    bench.await_note("first", "started")
    bench.queue.ingest_many(
        [bench.job("noted", f"job-{number}", budget={"max_attempts": 1}) for number in range(count)]
    )
    wait_until(lambda: worker.stats().waiting == min(count, prefetch), "they are claimed ahead")
    return worker


def test_jobs_are_claimed_ahead_and_run_in_their_turn(bench):
    worker = held_up(bench, 5)
    assert {bench.queue.read(f"job-{number}").state for number in range(5)} == {"running"}
    assert (worker.stats().running, worker.stats().started) == (1, 1)
    bench.let_go("first")
    for number in range(5):
        assert bench.settled(f"job-{number}").outcome == Completed()
    assert bench.noted()[-5:] == [f"job-{number} 1 ran" for number in range(5)]


def test_no_more_are_claimed_than_asked_for(bench):
    worker = held_up(bench, 9, prefetch=4)
    bench.ingest("noted", "late")
    assert (worker.stats().claimed, worker.stats().waiting) == (5, 4)
    assert bench.queue.stats().queues["default"].queued == 6
    bench.let_go("first")
    assert bench.settled("late").outcome == Completed()


def test_what_was_not_started_is_handed_back_uncharged_at_once(bench):
    worker = held_up(bench, 5)
    worker.stop(30.0, wait=False)
    # While the first one still runs.
    for number in range(5):
        record = bench.reaches(f"job-{number}", lambda record: record.state == "queued")
        assert (record.attempts, record.given_back, record.charged) == (1, 1, 0)
        assert record.error is None
    assert bench.queue.read("first").state == "running"
    with closing(bandog.connect(bench.path)) as other:
        claims = other.claim(limit=10)
        assert sorted(claim.job_id for claim in claims) == [f"job-{number}" for number in range(5)]
        assert {(claim.attempt, claim.charged) for claim in claims} == {(2, 1)}
    bench.let_go("first")
    assert bench.settled("first").outcome == Completed("held on")
    wait_until(lambda: worker.stats().state == "stopped", "it stops")
    assert bench.noted("job-0") == []
    assert worker.stats().released == 5


def test_a_job_that_is_cancelled_while_it_waits_never_starts(bench):
    listener = []
    worker = held_up(bench, 3, on_events=listener.extend)
    assert bench.queue.cancel("job-1", "not wanted").kind == "requested"
    assert bench.queue.read("job-1").state == "running"
    bench.let_go("first")
    assert bench.settled("job-1").outcome == Cancelled("not wanted")
    assert bench.settled("job-2").outcome == Completed()
    assert bench.noted("job-1") == []
    bench.await_counts(worker, cancelled=1, started=3)
    wait_until(
        lambda: [event.kind for event in listener if event.job_id == "job-1"] == ["claimed", "cancelled"], "events"
    )


def test_a_worker_whose_waiting_jobs_were_all_cancelled_goes_on(bench):
    worker = held_up(bench, 20)
    for number in range(20):
        bench.queue.cancel(f"job-{number}", "not wanted")
    bench.let_go("first")
    for number in range(20):
        assert bench.settled(f"job-{number}").outcome == Cancelled("not wanted")
    bench.ingest("noted", "next")
    assert bench.settled("next").outcome == Completed()
    assert worker.stats().started == 2


def test_the_leases_of_waiting_jobs_are_renewed(bench):
    held_up(bench, 3, lease=0.5)
    before = {number: bench.queue.read(f"job-{number}").lease_until for number in range(3)}
    for number in range(3):
        bench.reaches(f"job-{number}", lambda record, number=number: record.lease_until > before[number])
    time.sleep(0.8)  # longer than the lease
    assert bench.queue.recover() == ((), ())
    bench.let_go("first")
    for number in range(3):
        record = bench.settled(f"job-{number}")
        assert (record.outcome, record.attempts) == (Completed(), 1)


def test_two_workers_share_and_nothing_is_stuck(bench):
    bench.queue.ingest_many([bench.job("noted", f"job-{number}") for number in range(300)])
    one = bench.start(prefetch=100, worker="one")
    two = bench.start(prefetch=100, worker="two")
    for number in range(300):
        record = bench.settled(f"job-{number}")
        assert (record.outcome, record.attempts) == (Completed(), 1)
    wait_until(lambda: one.stats().completed + two.stats().completed == 300, "all are counted")
    assert sorted(bench.noted()) == sorted(f"job-{number} 1 ran" for number in range(300))


def test_jobs_behind_a_held_up_worker_are_run_by_another_one_once_it_stops(bench):
    first = held_up(bench, 5, prefetch=5, worker="one")
    second = bench.start(prefetch=50, worker="two")
    bench.ingest("noted", "free")
    assert bench.settled("free").outcome == Completed()
    first.stop(30.0, wait=False)
    for number in range(5):
        record = bench.settled(f"job-{number}")
        assert (record.outcome, record.worker, record.charged) == (Completed(), "two", 1)
    bench.await_counts(second, completed=6)
    bench.let_go("first")
    assert bench.settled("first").worker == "one"


def test_a_claim_that_waited_is_lost_like_any_other_and_not_started(bench):
    worker = held_up(bench, 1, lease=2.0)
    # Its next renewal finds out.
    steal(bench, "job-0")
    wait_until(lambda: bench.queue.engine.held() == 1, "the renewal is refused")
    bench.let_go("first")
    bench.await_counts(worker, stale=1, completed=1, started=1)
    assert bench.noted("job-0") == []
    assert bench.queue.read("job-0").state == "running"


def steal(bench, job_id):
    """Another claim, as after a recovery."""
    import sqlite3  # noqa: PLC0415 - behind the surface: time does not pass for this test

    with closing(sqlite3.connect(bench.path)) as connection, connection:
        changed = connection.execute(
            "UPDATE bandog_lease SET lease_token = 'another' WHERE number = "
            "(SELECT number FROM bandog_job WHERE job_id = ?)",
            (job_id,),
        )
        assert changed.rowcount == 1


def test_many_short_jobs_with_a_wait_between_them(bench):
    """The pool runs dry and is filled again, over and over."""
    worker = bench.start(prefetch=8)
    for number in range(60):
        bench.ingest("noted", f"job-{number}")
        if number % 7 == 0:
            bench.settled(f"job-{number}")
            threading.Event().wait(0.003)
    for number in range(60):
        assert bench.settled(f"job-{number}").outcome == Completed()
    bench.await_counts(worker, completed=60, claimed=60)
