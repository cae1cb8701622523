"""An executor that settles its own job through ``connection=``: the transaction decides, and the runtime never does."""

import sqlite3
import threading
from contextlib import closing, contextmanager

import pytest
from callers import INSERT, KINDS
from processes import eventually

import bandog
from bandog import Cancelled, Completed, Failed, OutcomeUnknown, Release, Snooze, StaleClaim, StoreBusy
from bandog.stores.running import NOT_COMMITTED, Running, settled_elsewhere


@pytest.fixture
def business(path):
    """Where the executors' own rows are, in the queue's file."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE business (word TEXT NOT NULL UNIQUE)")
    return path


@pytest.fixture
def queue(business):
    with bandog.connect(business, busy_timeout=0.2) as opened:
        yield opened


@contextmanager
def opened(path):
    with closing(sqlite3.connect(path, timeout=20, check_same_thread=False)) as connection:
        yield connection


def words(path):
    with opened(path) as connection:
        return [word for (word,) in connection.execute("SELECT word FROM business ORDER BY word")]


def tick(queue, execute, **fields):
    queue.enqueue(job_id="a", **fields)
    with bandog.Watchdog(queue, execute) as dog:
        return dog.tick()


def test_what_was_committed_is_the_outcome(queue, business):
    def execute(job, _token):
        with opened(business) as connection, connection:
            connection.execute(INSERT.format("paid"))
            queue.acknowledge(job, {"in": "the transaction"}, connection=connection)

    settled = tick(queue, execute)
    assert (settled.kind, settled.outcome) == ("settled", Completed({"in": "the transaction"}))
    assert words(business) == ["paid"]
    assert queue.engine.held() == 0


@pytest.mark.parametrize(
    ("report", "kind", "state"),
    [
        (Failed("no money", retry=False), "settled", "settled"),
        (Failed("no money", retry_in=60), "retried", "queued"),
        (Cancelled("told"), "settled", "settled"),
        (OutcomeUnknown([1]), "settled", "settled"),
        (Snooze(60), "snoozed", "queued"),
        (Release(), "released", "queued"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("returned", [None, Completed("another"), Failed("another"), Snooze(5)], ids=repr)
def test_every_report_that_was_committed_stands_whatever_is_returned(queue, business, report, kind, state, returned):
    def execute(job, _token):
        with opened(business) as connection, connection:
            queue.settle(job, report, connection=connection)
        return returned

    assert tick(queue, execute, max_attempts=5).kind == kind
    record = queue.read("a")
    assert record.state == state
    if state == "settled":
        assert record.outcome.kind == report.kind
    else:
        assert record.error == getattr(report, "reason", None)
        assert record.attempts == 1


@pytest.mark.parametrize("returned", [None, Completed("done")], ids=repr)
@pytest.mark.parametrize("how", ["rolled back", "closed", "savepoint", "swallowed", "stale", "refused"])
@pytest.mark.parametrize("named", ["object", "pair"])
def test_a_transaction_that_was_not_committed_is_no_success(queue, business, returned, how, named):
    def execute(job, _token):
        claim = job if named == "object" else (job.job_id, job.lease_token)
        with opened(business) as connection:
            connection.execute(INSERT.format("paid"))
            if how == "savepoint":
                connection.execute("SAVEPOINT inner_one")
            if how == "stale":
                connection.execute("UPDATE bandog_lease SET lease_until = 1")
            if how == "refused":
                connection.execute("COMMIT")
                connection.isolation_level = None
            try:
                queue.acknowledge(claim, connection=connection)
                if how == "swallowed":
                    connection.execute(INSERT.format("paid"))
            except (sqlite3.IntegrityError, StaleClaim, bandog.InvalidJob) as error:
                assert how in {"swallowed", "stale", "refused"}, error  # noqa: PT017 - the other ways do not raise
            if how == "savepoint":
                connection.execute("ROLLBACK TO inner_one")
                connection.execute("COMMIT")
            elif how != "closed":
                connection.rollback()
        return returned

    settled = tick(queue, execute)
    assert (settled.kind, settled.outcome) == ("settled", Failed(NOT_COMMITTED))
    assert words(business) == (["paid"] if how in {"savepoint", "refused"} else [])


def test_it_is_tried_again_while_attempts_are_left(queue, business):
    attempts = []

    def execute(job, _token):
        attempts.append(job.attempt)
        with opened(business) as connection:
            connection.execute(INSERT.format(f"paid-{job.attempt}"))
            queue.acknowledge(job, connection=connection)
            if job.attempt == 2:
                connection.commit()

    assert tick(queue, execute, max_attempts=3, backoff=bandog.Backoff(0, 0)).kind == "retried"
    record = queue.read("a")
    assert (record.error, record.recoveries, record.given_back) == (NOT_COMMITTED, 0, 0)
    with bandog.Watchdog(queue, execute) as dog:
        ticked = eventually(lambda: (made := dog.tick()).kind != "idle" and made, "the second attempt")
    assert ticked.outcome == Completed()
    assert attempts == [1, 2]
    assert words(business) == ["paid-2"]


@pytest.mark.parametrize(
    "report", [Failed("on purpose", retry=False), Cancelled("x"), OutcomeUnknown([1]), Snooze(60)], ids=repr
)
def test_what_an_executor_reports_of_its_rolled_back_transaction_stands(queue, business, report):
    """It knows better: only a success is not believed."""

    def execute(job, _token):
        with opened(business) as connection:
            queue.acknowledge(job, connection=connection)
            connection.rollback()
        return report

    ticked = tick(queue, execute)
    if isinstance(report, Snooze):
        assert (ticked.kind, queue.read("a").given_back) == ("snoozed", 1)
    else:
        assert ticked.outcome == (Failed("on purpose") if isinstance(report, Failed) else report)


def test_an_exception_that_rolled_the_transaction_back_is_the_failure(queue, business):
    def execute(job, _token):
        with opened(business) as connection, connection:
            connection.execute(INSERT.format("paid"))
            queue.acknowledge(job, connection=connection)
            message = "the provider said no"
            raise LookupError(message)

    assert "LookupError: the provider said no" in tick(queue, execute).outcome.reason
    assert words(business) == []


def test_an_exception_after_the_commit_changes_nothing(queue, business):
    def execute(job, _token):
        with opened(business) as connection, connection:
            queue.acknowledge(job, "kept", connection=connection)
        message = "too late"
        raise LookupError(message)

    assert tick(queue, execute).outcome == Completed("kept")


def test_another_handle_on_the_file_is_as_good(queue, business):
    def execute(job, _token):
        with bandog.connect(business) as own, opened(business) as connection:
            own.acknowledge(job, connection=connection)
            connection.rollback()

    assert tick(queue, execute).outcome == Failed(NOT_COMMITTED)


def test_another_thread_may_settle(queue, business):
    def execute(job, _token):
        def settle():
            with opened(business) as connection:
                queue.acknowledge(job, connection=connection)
                connection.rollback()

        thread = threading.Thread(target=settle)
        thread.start()
        thread.join()

    assert tick(queue, execute).outcome == Failed(NOT_COMMITTED)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_transaction_that_is_still_open_is_waited_for(queue, business, end, monkeypatch):
    """The executor has returned, its claim is kept, and nothing is decided before the transaction is."""
    settle_many, tries = queue.operations.settle_many, []

    def counted(reports):
        tries.append(reports)
        return settle_many(reports)

    monkeypatch.setattr(queue.operations, "settle_many", counted)
    with opened(business) as connection:

        def execute(job, _token):
            connection.execute(INSERT.format("paid"))
            queue.acknowledge(job, connection=connection)

        queue.enqueue(job_id="a")
        with bandog.Watchdog(queue, execute) as dog:
            ticks = []
            thread = threading.Thread(target=lambda: ticks.append(dog.tick()))
            thread.start()
            eventually(lambda: len(tries) >= 3, "the runtime has tried to settle, in vain")
            assert queue.read("a").state == "running"
            assert queue.engine.held() == 1
            assert thread.is_alive()
            getattr(connection, end)()
            thread.join(60)
        assert ticks[0].outcome == (Completed() if end == "commit" else Failed(NOT_COMMITTED))
    assert words(business) == (["paid"] if end == "commit" else [])


def test_an_ingest_that_would_wait_for_its_own_transaction_says_what_to_pass(queue, business):
    said = []

    def execute(job, _token):
        with opened(business) as connection, connection:
            connection.execute(INSERT.format("paid"))
            with pytest.raises(StoreBusy, match="pass it as connection=") as caught:
                queue.enqueue(job_id="b")
            said.append(caught.value.waited)
            queue.enqueue(job_id="b", connection=connection)
            queue.acknowledge(job, connection=connection)

    assert tick(queue, execute).outcome == Completed()
    assert said[0] >= 0.2
    assert queue.read("b").state == "queued"


@pytest.mark.parametrize("kind", ["aiosqlite", "async-sqlalchemy-session", "async-sqlalchemy-connection"])
@pytest.mark.parametrize("commits", [True, False])
def test_coroutines_have_the_same_from_their_runtime(path, kind, commits):
    caller = KINDS[kind](path)
    try:
        queue, connection = caller.queue.asynchronous, caller.connection

        async def run():
            async def execute(job, _token):
                await queue.enqueue(job_id="next", connection=connection)
                await queue.acknowledge(job, "kept", connection=connection)
                await (connection.commit if commits else connection.rollback)()
                return Completed("another")

            await queue.enqueue(job_id="a")
            with_runtime = bandog.AsyncWatchdog(queue, execute)
            async with with_runtime as dog:
                return await dog.tick()

        assert caller.call(run).outcome == (Completed("kept") if commits else Failed(NOT_COMMITTED))
        assert caller.jobs() == (["a", "next"] if commits else ["a"])
    finally:
        caller.stop()


def test_claims_of_the_pull_api_leave_nothing_behind_in_the_runtimes(queue, business):
    running = Running()
    queue.enqueue(job_id="a")
    (claim,) = queue.claim()
    with opened(business) as connection, connection:
        queue.acknowledge(claim, connection=connection)
    other = queue.enqueue(job_id="b") and queue.claim()[0]
    running.jobs[3] = other
    assert running.ended(3, Completed()) == Completed()
    assert running.jobs == {}


def test_a_note_that_comes_too_late_is_not_for_the_next_job_of_the_slot(queue):
    for job_id in ("a", "b"):
        queue.enqueue(job_id=job_id)
    a, b = queue.claim(limit=2)
    running = Running()
    running.jobs[0] = a
    assert running.ended(0, None) is None
    running.jobs[0] = b
    settled_elsewhere(a.job_id, a.lease_token)  # of the same claim call, and so with the same token
    assert running.ended(0, None) is None
    running.jobs[0] = b
    settled_elsewhere(b.job_id, b.lease_token)
    assert running.ended(0, None) == Failed(NOT_COMMITTED)
    running.jobs[0] = b
    assert running.ended(0, None) is None, "a note is for one run"
