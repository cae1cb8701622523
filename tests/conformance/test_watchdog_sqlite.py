"""Watchdog on a clock that the test moves: renewals, lost leases, late claims. SQLite only."""

import sqlite3
import threading
from contextlib import closing
from datetime import timedelta

import pytest
from steps import Background, claim_one, wait_until, watchdog

from bandog import Completed, Failed, InvalidJob, Job, JobAborted, Snooze, Tick

LEASE = 60.0

pytestmark = pytest.mark.both_faces


@pytest.fixture
def queue(sqlite_store):
    return sqlite_store.connect()


def hold(store, queue, seconds, step):
    """Let time pass, as slowly as the renewals need."""
    passed = 0.0
    while passed < seconds:
        store.advance(step)
        passed += step
        until = store.now() + timedelta(seconds=LEASE - LEASE / 4)
        wait_until(lambda until=until: queue.read("a").lease_until >= until, "the claim is renewed")


@pytest.mark.parametrize("step", [5, 14.9, 44])
def test_renewals_keep_a_job_longer_than_its_lease(sqlite_store, queue, step):
    queue.enqueue(job_id="a")
    other = sqlite_store.connect()

    def execute(_job, token):
        hold(sqlite_store, other, 10 * LEASE, step)
        assert other.claim() == []
        assert token.reason is None
        token.raise_if_aborted()
        return Completed("in time")

    assert watchdog(queue, execute, lease=LEASE).tick().outcome == Completed("in time")
    assert (other.read("a").attempts, other.read("a").recoveries) == (1, 0)


def test_the_claim_is_renewed_every_quarter_of_a_short_lease_and_every_ten_seconds_of_a_long_one(sqlite_store, queue):
    def execute(job, _token):
        first = queue.read(job.job_id).lease_until
        sqlite_store.advance(job.payload)
        wait_until(lambda: queue.read(job.job_id).lease_until == first + timedelta(seconds=job.payload), "a renewal")

    for lease, pause in ((8.0, 2.0), (120.0, 10.0), (3600.0, 10.0)):
        queue.enqueue(pause)
        assert watchdog(queue, execute, lease=lease).tick().outcome == Completed()


def lose(store, token):
    store.advance(LEASE)
    assert token.wait(30) is True


@pytest.mark.parametrize("answer", [Completed("late"), Failed("late"), Snooze(1), None], ids=repr)
def test_a_lost_lease_aborts_the_token_and_the_report_is_stale(sqlite_store, queue, answer):
    queue.enqueue(job_id="a", max_attempts=5)

    def execute(job, token):
        assert job.attempt == 1
        lose(sqlite_store, token)
        assert (token.aborted, token.reason) == (True, "lease_lost")
        with pytest.raises(JobAborted) as caught:
            token.raise_if_aborted()
        assert caught.value.reason == "lease_lost"
        return answer

    assert watchdog(queue, execute, lease=LEASE).tick() == Tick(kind="stale", job_id="a")
    record = queue.read("a")
    assert (record.state, record.outcome, record.given_back) == ("running", None, 0)
    assert queue.recover() == (("a",), ())


def test_a_tick_is_stale_where_another_worker_has_the_job_by_now(sqlite_store, queue):
    queue.enqueue(job_id="a")
    others = []

    def execute(_job, token):
        lose(sqlite_store, token)
        others.append(claim_one(sqlite_store.connect(), "a"))
        return Completed("mine")

    assert watchdog(queue, execute, lease=LEASE).tick() == Tick(kind="stale", job_id="a")
    assert queue.read("a").state == "running"
    assert queue.acknowledge(others[0], "theirs").kind == "completed"
    assert queue.read("a").outcome == Completed("theirs")


def test_an_exception_after_the_lease_is_lost_is_stale_too(sqlite_store, queue):
    queue.enqueue(job_id="a")

    def execute(_job, token):
        lose(sqlite_store, token)
        raise ValueError("late")

    assert watchdog(queue, execute, lease=LEASE).tick().kind == "stale"
    assert sqlite_store.held(queue) == 0
    assert queue.read("a").error is None


def test_a_thread_that_waits_for_the_token_is_woken(sqlite_store, queue):
    queue.enqueue(job_id="a")

    def execute(_job, token):
        called = threading.Event()
        reasons = []
        token.add_callback(lambda reason: (reasons.append(reason), called.set()))
        assert token.wait(0) is False
        waiting = Background(lambda: token.wait(30))
        sqlite_store.advance(LEASE)
        assert waiting.join() is True
        assert called.wait(30)
        assert reasons == ["lease_lost"]
        # A callback that comes late is called too.
        late = threading.Event()
        token.add_callback(lambda _reason: late.set())
        assert late.wait(30)

    assert watchdog(queue, execute, lease=LEASE).tick().kind == "stale"


def test_a_token_is_not_aborted_one_moment_before_the_end(sqlite_store, queue):
    queue.enqueue(job_id="a")
    blocker = sqlite3.connect(sqlite_store.path, isolation_level=None, check_same_thread=False)

    def execute(_job, token):
        # No renewal can land while another connection holds the write lock.
        blocker.execute("BEGIN IMMEDIATE")
        sqlite_store.advance(LEASE - 0.000_001)
        assert token.aborted is False
        sqlite_store.advance(0.000_001)
        assert (token.aborted, token.reason) == (True, "lease_lost")
        blocker.execute("ROLLBACK")

    with closing(blocker):
        assert watchdog(queue, execute, lease=LEASE).tick().kind == "stale"


def test_a_claim_that_comes_too_late_is_released_and_not_started(sqlite_store):
    """The claim waits for the write lock; by the time that it is had, over half the lease has passed for its holder."""
    queue = sqlite_store.connect(busy_timeout=60)
    started = []
    rounds = 0
    while True:
        rounds += 1
        job_id = f"{rounds}"
        queue.enqueue(job_id=job_id)
        with closing(sqlite3.connect(sqlite_store.path, isolation_level=None)) as blocker:
            blocker.execute("BEGIN IMMEDIATE")
            ticking = threading.Event()

            def tick(ticking=ticking):
                dog = watchdog(queue, lambda job, _token: started.append(job.job_id), lease=LEASE)
                ticking.set()
                return dog.tick()

            running = Background(tick)
            assert ticking.wait(30)
            # The thread may not have asked yet; then this round shows nothing, and there is another.
            threading.Event().wait(0.02)
            sqlite_store.advance(LEASE / 2 + 1)
            blocker.execute("ROLLBACK")
        done = running.join()
        if done.kind != "settled":
            break
        assert started[-1] == job_id
        assert rounds < 50
    assert done == Tick(kind="released", job_id=job_id)
    assert job_id not in started
    record = queue.read(job_id)
    assert (record.state, record.attempts, record.given_back) == ("queued", 1, 1)
    assert sqlite_store.held(queue) == 0


def test_a_store_that_is_busy_is_tried_again_until_the_outcome_is_recorded(sqlite_store, monkeypatch):
    queue = sqlite_store.connect(busy_timeout=0.05)
    queue.enqueue(job_id="a")
    reader = sqlite_store.connect()
    settle_many, tries = queue.operations.settle_many, []

    def counted(reports):
        tries.append(1)
        return settle_many(reports)

    monkeypatch.setattr(queue.operations, "settle_many", counted)
    with closing(sqlite3.connect(sqlite_store.path, isolation_level=None, check_same_thread=False)) as blocker:

        def execute(_job, _token):
            blocker.execute("BEGIN IMMEDIATE")
            return Completed("kept")

        running = Background(watchdog(queue, execute, lease=LEASE).tick)
        wait_until(lambda: len(tries) > 2, "two attempts end busy")
        assert reader.read("a").state == "running"
        blocker.execute("ROLLBACK")
        assert running.join() == Tick(kind="settled", job_id="a", outcome=Completed("kept"))
    assert reader.read("a").outcome == Completed("kept")


def test_two_runtimes_on_one_file_never_run_one_job_twice(sqlite_store):
    count = 40
    sqlite_store.connect().ingest_many(Job(job_id=f"{number}") for number in range(count))
    seen = []

    def drain():
        dog = watchdog(sqlite_store.connect(), lambda job, _token: seen.append(job.job_id), lease=LEASE)
        while dog.tick().kind != "idle":
            pass

    for running in [Background(drain) for _ in range(3)]:
        running.join(60)
    assert sorted(seen, key=int) == [f"{number}" for number in range(count)]


def test_a_claim_that_was_given_away_aborts_the_token_at_the_next_renewal(sqlite_store, queue):
    queue.enqueue(job_id="a")

    def execute(job, token):
        queue.release(job)
        claim_one(sqlite_store.connect(), "a", lease=10 * LEASE)
        assert token.aborted is False
        sqlite_store.advance(LEASE / 4)
        assert token.wait(30) is True
        assert token.reason == "lease_lost"

    # The tick is told what was recorded for its claim.
    assert watchdog(queue, execute, lease=LEASE).tick() == Tick(kind="released", job_id="a")
    assert queue.read("a").state == "running"


def test_a_job_that_was_purged_while_it_ran_is_stale(sqlite_store, queue):
    queue.enqueue(job_id="a")

    def execute(_job, _token):
        sqlite_store.execute("DELETE FROM bandog_lease")
        sqlite_store.execute("DELETE FROM bandog_job")

    assert watchdog(queue, execute, lease=LEASE).tick() == Tick(kind="stale", job_id="a")
    assert not queue.has_pending_work()


@pytest.mark.parametrize("timeout", ["1", True, float("nan")], ids=repr)
def test_a_token_waits_for_a_duration_only(queue, timeout):
    queue.enqueue(job_id="a")

    def execute(_job, token):
        with pytest.raises(InvalidJob) as caught:
            token.wait(timeout)
        assert caught.value.field == "timeout"
        assert token.wait(timedelta(0)) is False

    assert watchdog(queue, execute).tick().outcome == Completed()
