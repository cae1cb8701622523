"""Clocks: somebody sets the wall clock, or the machine is started again (C10). SQLite only."""

from datetime import timedelta

import pytest
from steps import claim_one, claimed_ids, everything

from bandog import Job, Snooze, StaleClaim

HOUR = 3600.0
LEASE = 60.0
both_ways = pytest.mark.parametrize("step", [HOUR, -HOUR, 365 * 24 * HOUR, -365 * 24 * HOUR], ids="{:+.0f}s".format)
reopened = pytest.mark.parametrize("reopen", [False, True], ids=["open", "reopened"])


@pytest.fixture
def clock(sqlite_store):
    return sqlite_store.clock


@pytest.fixture
def queue(sqlite_store):
    return sqlite_store.connect()


def step_clock(store, queue, seconds, reopen):
    """Set the wall clock: while the queue is open, or while nobody has the file open."""
    if not reopen:
        store.clock.step_wall(seconds)
        return queue
    store.close()
    store.clock.step_wall(seconds)
    return store.connect()


@both_ways
@reopened
def test_a_stepped_clock_steals_no_lease_and_hides_no_lost_one(sqlite_store, queue, step, reopen):
    queue.ingest_many([Job(job_id="running"), Job(job_id="lost"), Job(job_id="queued")])
    holder = claim_one(queue, "running", lease=2 * LEASE)
    claim_one(queue, "lost", lease=LEASE)
    queue = step_clock(sqlite_store, queue, step, reopen)
    assert queue.recover() == ((), ())
    # The job that was to run at once does, whatever the clock says.
    queued = claim_one(queue, "queued", lease=10 * LEASE)
    assert queue.renew(holder, lease=2 * LEASE) is None
    sqlite_store.advance(LEASE - 1)
    assert queue.recover() == ((), ())
    sqlite_store.advance(1)
    assert queue.recover() == (("lost",), ())
    claim_one(queue, "lost", lease=LEASE)
    assert queue.acknowledge(holder).kind == "completed"
    assert queue.acknowledge(queued).kind == "completed"


@reopened
@pytest.mark.parametrize("put_back", ["ingested", "released", "recovered", "snoozed for 0 s", "failed for 0 s"])
def test_a_job_that_may_run_at_once_does_not_wait_after_the_clock_was_set_back(sqlite_store, queue, put_back, reopen):
    queue.enqueue(job_id="a", max_attempts=9)
    # It was admitted long before the step, and put back shortly before it.
    if put_back != "ingested":
        sqlite_store.advance(2 * HOUR)
        claim = claim_one(queue, "a", lease=LEASE)
        if put_back == "released":
            queue.release(claim)
        elif put_back == "recovered":
            sqlite_store.advance(LEASE)
            queue.recover()
        elif put_back == "snoozed for 0 s":
            queue.settle(claim, Snooze(0))
        else:
            queue.fail(claim, "why", retry_in=0)
    queue = step_clock(sqlite_store, queue, -HOUR, reopen)
    assert queue.read("a").state == "queued"
    claim_one(queue, "a")


@reopened
def test_the_next_wake_does_not_wait_after_the_clock_was_set_back(sqlite_store, queue, reopen):
    queue.enqueue(job_id="a")
    queue = step_clock(sqlite_store, queue, -HOUR, reopen)
    assert queue.next_wake() <= sqlite_store.now()


@reopened
@pytest.mark.parametrize("noticed_by", ["the queue that was open", "a second one"])
def test_a_clock_that_was_wrong_for_a_while(sqlite_store, queue, noticed_by, reopen):
    """It jumps ahead, a job is ingested, and it is set right again."""
    sqlite_store.clock.step_wall(HOUR)
    queue.enqueue(job_id="a")
    queue = step_clock(sqlite_store, queue, -HOUR, reopen)
    claim_one(queue if noticed_by == "the queue that was open" else sqlite_store.connect(), "a")


@reopened
def test_a_clock_that_is_set_back_in_small_steps(sqlite_store, queue, reopen):
    queue.enqueue(job_id="a")
    for _ in range(40):
        queue = step_clock(sqlite_store, queue, -0.9, reopen)
        queue.recover()
    # No step is worth noticing by itself; all of them together are.
    assert queue.next_wake() <= sqlite_store.now() + timedelta(seconds=2)
    sqlite_store.advance(2)
    claim_one(queue, "a")


def test_a_clock_that_was_set_back_twice(sqlite_store, queue):
    queue.enqueue(job_id="a", max_attempts=9)
    for _ in range(3):
        sqlite_store.clock.step_wall(-HOUR)
        queue.release(claim_one(queue, "a"))
        queue = sqlite_store.reopen()


def test_every_queue_that_has_the_file_open_notices(sqlite_store, queue):
    other = sqlite_store.connect()
    queue.enqueue(job_id="a")
    sqlite_store.clock.step_wall(-HOUR)
    claim_one(other, "a")
    queue.enqueue(job_id="b")
    claim_one(other, "b")


def test_the_order_of_admission_survives_a_clock_that_was_set_back(sqlite_store, queue):
    for number in range(5):
        queue.enqueue(job_id=f"before-{number}")
        sqlite_store.advance(1)
    sqlite_store.clock.step_wall(-HOUR)
    for number in range(5):
        queue.enqueue(job_id=f"after-{number}")
        sqlite_store.advance(1)
    order = [f"before-{number}" for number in range(5)] + [f"after-{number}" for number in range(5)]
    assert claimed_ids(queue, limit=3) == order


@both_ways
def test_a_job_of_a_later_time_runs_by_the_wall_clock(sqlite_store, queue, step):
    at = sqlite_store.now() + timedelta(seconds=2 * HOUR)
    queue.enqueue(job_id="appointment", available_at=at)
    sqlite_store.clock.step_wall(step)
    if step > 2 * HOUR:
        claim_one(queue, "appointment")
        return
    assert queue.claim() == []
    assert queue.read("appointment").available_at == at
    sqlite_store.advance((at - sqlite_store.now()).total_seconds())
    claim_one(queue, "appointment")


def test_jobs_that_wait_on_purpose_do_not_run_early_after_the_clock_was_set_back(sqlite_store, queue):
    queue.ingest_many([Job(job_id="delayed", delay=LEASE), Job(job_id="failed", max_attempts=2, priority=1)])
    queue.fail(claim_one(queue, "failed"), "why", retry_in=LEASE)
    sqlite_store.clock.step_wall(-HOUR)
    assert queue.claim() == []
    sqlite_store.advance(LEASE - 1)
    assert queue.claim() == []


@both_ways
def test_lease_ends_are_shown_in_the_wall_time_of_now(sqlite_store, queue, step):
    queue.enqueue(job_id="a")
    claim_one(queue, "a", lease=LEASE)
    sqlite_store.clock.step_wall(step)
    end = sqlite_store.now() + timedelta(seconds=LEASE)
    assert queue.read("a").lease_until == end
    assert queue.next_wake() == end


def test_a_lease_ends_at_its_very_microsecond(sqlite_store, queue):
    queue.enqueue(job_id="a")
    claim = claim_one(queue, "a", lease=LEASE)
    sqlite_store.advance(LEASE - 0.000_001)
    assert queue.renew(claim, lease=LEASE) is None
    sqlite_store.advance(LEASE)
    with pytest.raises(StaleClaim):
        queue.renew(claim)
    assert queue.recover() == (("a",), ())


def test_a_job_is_due_at_its_very_microsecond(sqlite_store, queue):
    queue.enqueue(job_id="a", delay=LEASE)
    sqlite_store.advance(LEASE - 0.000_001)
    assert queue.claim() == []
    sqlite_store.advance(0.000_001)
    claim_one(queue, "a")


def test_a_restart_of_the_machine_ends_every_lease(sqlite_store, queue, clock):
    queue.ingest_many([Job(job_id="a"), Job(job_id="b", max_recoveries=0), Job(job_id="queued", delay=HOUR)])
    lost = queue.claim(limit=2, lease=100 * HOUR)
    before = everything(queue.read("queued"))
    sqlite_store.close()
    clock.reboot("second")
    queue = sqlite_store.connect()
    for claim in lost:
        with pytest.raises(StaleClaim):
            queue.acknowledge(claim)
    assert queue.recover() == (("a",), ("b",))
    assert everything(queue.read("queued")) == before
    claim_one(queue, "a", lease=LEASE)


def test_a_restart_is_noticed_once(sqlite_store, queue, clock):
    queue.enqueue(job_id="a")
    sqlite_store.close()
    clock.reboot("second")
    claim = claim_one(sqlite_store.connect(), "a", lease=LEASE)
    # Same boot: opening the file again ends nothing.
    queue = sqlite_store.reopen()
    assert queue.recover() == ((), ())
    assert queue.acknowledge(claim).kind == "completed"


def test_leases_are_measured_after_a_restart_as_before(sqlite_store, queue, clock):
    queue.close()
    clock.reboot("second")
    queue = sqlite_store.connect()
    queue.enqueue(job_id="a")
    claim_one(queue, "a", lease=LEASE)
    sqlite_store.advance(LEASE - 1)
    assert queue.recover() == ((), ())
    sqlite_store.advance(1)
    assert queue.recover() == (("a",), ())


def test_a_clock_that_was_set_back_during_a_restart(sqlite_store, queue, clock):
    queue.enqueue(job_id="a")
    sqlite_store.close()
    clock.reboot("second")
    clock.step_wall(-HOUR)
    claim_one(sqlite_store.connect(), "a")
