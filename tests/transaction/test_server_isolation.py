"""Other transactions beside the caller's, at every isolation level: what is waited for, and what is passed through."""

import random
import re
import threading
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from processes import eventually, nursery
from server_callers import KINDS

import bandog
from bandog import Completed, JobNotFound, StaleClaim
from bandog.stores.running import NOT_COMMITTED

THREADS = 20
KEYS = 100
BATCH = 10

LEVELS = {
    "read committed": psycopg.IsolationLevel.READ_COMMITTED,
    "repeatable read": psycopg.IsolationLevel.REPEATABLE_READ,
    "serializable": psycopg.IsolationLevel.SERIALIZABLE,
}


@pytest.fixture
def url(postgres_server):
    postgres_server.start_over(bandog.testing.FakeClock().now())
    postgres_server.execute("CREATE TABLE IF NOT EXISTS business (word text NOT NULL UNIQUE)")
    postgres_server.execute("TRUNCATE business")
    return postgres_server.url


@pytest.fixture
def queue(url):
    with bandog.connect(url, busy_timeout=0.2) as opened:
        yield opened


@pytest.fixture
def connect(url):
    """Open a connection at a level; closed afterwards."""
    made = []

    def connect(level="read committed", **options):
        connection = psycopg.connect(url, **options)
        connection.isolation_level = LEVELS[level]
        made.append(connection)
        return connection

    yield connect
    for connection in made:
        connection.close()


def is_waiting(postgres_server, connection):
    ((waits,),) = postgres_server.execute(
        "SELECT cardinality(pg_blocking_pids(%s)) > 0", (connection.info.backend_pid,)
    )
    return waits


@pytest.fixture
def waiting(postgres_server):
    """Run a call on a connection in a thread; returns once it waits for another transaction."""

    class Waiting:
        def __init__(self, connection, call):
            self.answer = None
            self.error = None
            self._thread = threading.Thread(target=self._run, args=(call,))
            self._thread.start()
            eventually(lambda: is_waiting(postgres_server, connection), "it waits for the other transaction")

        def _run(self, call):
            try:
                self.answer = call()
            except Exception as error:  # noqa: BLE001 - looked at by the test
                self.error = error

        def end(self):
            self._thread.join(60)
            assert not self._thread.is_alive()
            return self.answer, self.error

    return Waiting


@pytest.mark.parametrize("end", ["commit", "rollback"])
@pytest.mark.parametrize("level", LEVELS)
def test_a_key_that_another_transaction_holds_is_waited_for(queue, connect, waiting, end, level):
    """Never a duplicate of what is not there."""
    first, second = connect(), connect(level)
    queue.enqueue(job_id="k", connection=first)
    second.execute("SELECT 1 FROM bandog.job")  # from here on, the higher levels see nothing else
    rival = waiting(second, lambda: queue.enqueue(job_id="k", connection=second))
    getattr(first, end)()
    answer, error = rival.end()
    if end == "rollback":
        assert answer.kind == "admitted"
        second.commit()
    elif level == "read committed":
        assert answer.kind == "duplicate"
        assert answer.job.state == "queued"
        second.commit()
    else:
        assert isinstance(error, psycopg.errors.SerializationFailure)
        second.rollback()
        assert queue.enqueue(job_id="k", connection=second).kind == "duplicate"
    second.rollback()
    assert [record.job_id for record in queue.jobs()] == ["k"]


def test_the_connections_own_lock_timeout_ends_the_waiting(queue, connect):
    first, second = connect(), connect(options="-c lock_timeout=100")
    queue.enqueue(job_id="k", connection=first)
    with pytest.raises(psycopg.errors.LockNotAvailable):
        queue.enqueue(job_id="k", connection=second)


def test_a_deadlock_is_told_to_one_of_the_two(queue, connect, waiting):
    first, second = connect(), connect(options="-c deadlock_timeout=50")
    queue.enqueue(job_id="a", connection=first)
    queue.enqueue(job_id="b", connection=second)
    rival = waiting(first, lambda: queue.enqueue(job_id="b", connection=first))
    with pytest.raises(psycopg.errors.DeadlockDetected):
        queue.enqueue(job_id="a", connection=second)
    second.rollback()
    answer, error = rival.end()
    assert (answer.kind, error) == ("admitted", None)
    first.commit()
    assert {record.job_id for record in queue.jobs()} == {"a", "b"}


def work(queue, connection, number, failures):
    """One of the threads, which notes what must not be."""
    chance = random.Random(number)
    keys = [f"key-{key:03}" for key in range(KEYS)]
    chance.shuffle(keys)
    for place in range(0, KEYS, BATCH):
        batch = keys[place : place + BATCH]
        if number % 4:
            batch.sort()  # the others lock each other out, and one of them is told
        try:
            told = [queue.enqueue(job_id=key, connection=connection).kind for key in batch]
        except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
            connection.rollback()
            continue
        if not set(told) <= {"admitted", "duplicate"}:
            failures.append(told)
        duplicates = [key for key, kind in zip(batch, told, strict=True) if kind == "duplicate"]
        try:
            (connection.commit if chance.random() < 0.5 else connection.rollback)()
        except psycopg.errors.SerializationFailure:
            connection.rollback()
        # Whoever was told so must find it, now that this transaction is out of the way.
        failures.extend(key for key in duplicates if queue.read(key).state != "queued")


@pytest.mark.parametrize("level", LEVELS)
def test_twenty_threads_leave_exactly_one_live_job_per_key(postgres_server, url, connect, level):
    """Half of the transactions are rolled back. A duplicate is told only of what is there to stay."""
    failures = []

    def guarded(queue, connection, number):
        try:
            work(queue, connection, number, failures)
        except BaseException as error:  # noqa: BLE001 - a thread that dies must not pass for one that is done
            failures.append(repr(error))

    with bandog.connect(url, busy_timeout=60) as queue:
        connections = [connect(level, options="-c deadlock_timeout=20") for _ in range(THREADS)]
        threads = [
            threading.Thread(target=guarded, args=(queue, connection, number))
            for number, connection in enumerate(connections)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        # Whatever is missing was rolled back by all of them.
        for key in range(KEYS):
            queue.enqueue(job_id=f"key-{key:03}")
    counted = postgres_server.execute("SELECT count(*), count(DISTINCT job_id) FROM bandog.job")
    queued = postgres_server.execute("SELECT count(*) FROM bandog.ready JOIN bandog.job USING (number)")
    assert (counted, queued) == ([(KEYS, KEYS)], [(KEYS,)])


@pytest.mark.parametrize("level", LEVELS)
def test_a_transaction_of_any_level_enqueues_and_settles(queue, connect, level):
    queue.enqueue(job_id="a", max_attempts=3)
    queue.enqueue(job_id="b", max_attempts=3)
    a, b = queue.claim(limit=2)
    connection = connect(level)
    connection.execute("INSERT INTO business VALUES ('paid')")
    assert queue.enqueue(job_id="c", connection=connection).kind == "admitted"
    assert queue.acknowledge(a, connection=connection).kind == "completed"
    assert queue.fail(b, "why", connection=connection).kind == "retried"
    connection.commit()
    assert [queue.read(job_id).state for job_id in "abc"] == ["settled", "queued", "queued"]


def test_a_serialization_failure_of_the_callers_own_work_is_passed_through(queue, connect):
    """Neither tried again nor hidden: it is the caller's transaction that has to be run again, all of it."""
    first, second = connect("serializable"), connect("serializable")
    for connection in (first, second):
        connection.execute("SELECT count(*) FROM business").fetchall()
    for name, connection in (("one", first), ("two", second)):
        connection.execute("INSERT INTO business VALUES (%s)", (name,))
        queue.enqueue(job_id=name, connection=connection)
    first.commit()
    with pytest.raises(psycopg.errors.SerializationFailure):
        second.commit()
    assert [record.job_id for record in queue.jobs()] == ["one"]


@pytest.mark.parametrize("report", ["completed", "failed"])
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_claim_that_another_transaction_holds_is_waited_for(queue, connect, waiting, report, end):
    queue.enqueue(job_id="a", max_attempts=3)
    (claim,) = queue.claim()
    first, second = connect(), connect()
    queue.fail(claim, "first", retry=False, connection=first)

    def settle():
        if report == "completed":
            return queue.acknowledge(claim, connection=second)
        return queue.fail(claim, "second", connection=second)

    rival = waiting(second, settle)
    getattr(first, end)()
    answer, error = rival.end()
    assert error is None
    # Once it is committed, the token has ended the claim, and is told what it ended.
    assert answer.kind == ("failed" if end == "commit" else "completed" if report == "completed" else "retried")
    second.commit()


def test_a_lease_that_ended_while_its_row_was_waited_for_is_lost(queue, connect, waiting, postgres_server):
    queue.enqueue(job_id="a", max_attempts=3)
    (claim,) = queue.claim(lease=60)
    first, second = connect(), connect()
    queue.release(claim, connection=first)
    rival = waiting(second, lambda: queue.fail(claim, "late", connection=second))
    postgres_server.execute("UPDATE bandog.test_clock SET now = now + interval '2 minutes'")
    first.rollback()
    answer, error = rival.end()
    assert answer is None
    assert isinstance(error, StaleClaim)


def test_a_snapshot_from_before_the_claim_does_not_see_it(queue, connect):
    """Nothing is settled by it: its transaction has to begin after the claim."""
    connection = connect("repeatable read")
    connection.execute("SELECT 1")
    queue.enqueue(job_id="a")
    (claim,) = queue.claim()
    with pytest.raises(StaleClaim):
        queue.acknowledge(claim, connection=connection)
    with pytest.raises(JobNotFound):
        queue.acknowledge((claim.job_id, claim.lease_token), connection=connection)
    connection.rollback()
    assert queue.acknowledge(claim, connection=connection).kind == "completed"


@pytest.mark.parametrize("level", LEVELS)
def test_a_renewal_beside_a_snapshot_is_a_conflict(queue, connect, level):
    connection = connect(level)
    queue.enqueue(job_id="a")
    (claim,) = queue.claim()
    connection.execute("SELECT 1 FROM business")
    queue.renew(claim)
    if level == "read committed":
        assert queue.acknowledge(claim, connection=connection).kind == "completed"
    else:
        with pytest.raises(psycopg.errors.SerializationFailure):
            queue.acknowledge(claim, connection=connection)


def test_what_is_enqueued_from_sql_is_a_job_like_others(queue, connect):
    readme = Path(bandog.sql.__file__).with_name("README.md").read_text(encoding="utf-8")
    (statement,) = re.findall(r"```sql\n(.*?)```", readme, re.DOTALL)
    connection = connect()
    assert connection.execute(statement.encode()).rowcount == 1
    assert connection.execute(statement.encode()).rowcount == 0
    connection.commit()
    again = queue.enqueue({"to": "ada@example.org"}, job_id="welcome-42", queue="mail")
    assert (again.kind, again.job.state) == ("duplicate", "queued")
    (claim,) = queue.claim(queues="mail")
    queue.acknowledge(claim)
    assert queue.read("welcome-42").outcome == Completed()


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_transaction_that_is_still_open_is_waited_for_by_the_runtime(queue, connect, end, monkeypatch):
    """The executor has returned, its claim is kept, and nothing is decided before the transaction is."""
    settle_many, tries = queue.operations.settle_many, []

    def counted(reports):
        tries.append(reports)
        return settle_many(reports)

    monkeypatch.setattr(queue.operations, "settle_many", counted)
    connection = connect()

    def execute(job, _token):
        connection.execute("INSERT INTO business VALUES ('paid')")
        queue.acknowledge(job, connection=connection)

    queue.enqueue(job_id="a")
    with bandog.Watchdog(queue, execute) as dog:
        ticks = []
        thread = threading.Thread(target=lambda: ticks.append(dog.tick()))
        thread.start()
        eventually(lambda: len(tries) >= 3, "the runtime has tried to settle, in vain")
        assert queue.read("a").state == "running"
        assert thread.is_alive()
        getattr(connection, end)()
        thread.join(60)
    assert ticks[0].outcome == (Completed() if end == "commit" else bandog.Failed(NOT_COMMITTED))
    paid = connection.execute("SELECT word FROM business").fetchall()
    assert paid == ([("paid",)] if end == "commit" else [])


@pytest.mark.parametrize("commits", [True, False])
def test_the_transaction_decides_about_a_job_that_its_executor_settles(queue, url, commits):
    def execute(job, _token):
        with closing(psycopg.connect(url)) as connection:
            connection.execute("INSERT INTO business VALUES ('paid')")
            queue.enqueue(job_id="next", connection=connection)
            queue.acknowledge(job, {"in": "the transaction"}, connection=connection)
            (connection.commit if commits else connection.rollback)()

    queue.enqueue(job_id="a")
    with bandog.Watchdog(queue, execute) as dog:
        outcome = dog.tick().outcome
    assert outcome == (Completed({"in": "the transaction"}) if commits else bandog.Failed(NOT_COMMITTED))
    assert {record.job_id for record in queue.jobs()} == ({"a", "next"} if commits else {"a"})


def test_a_runtime_finds_by_its_poll_what_was_committed(queue, connect):
    """Nothing is sent in the caller's transaction: no lock that all commits would wait for."""
    ran = threading.Event()

    def execute(_job, _token):
        ran.set()

    connection = connect()
    with bandog.Watchdog(queue, execute) as dog, bandog.Timer(queue, dog, poll=0.1):
        queue.enqueue(job_id="a", connection=connection)
        assert not ran.wait(0.3), "nothing is acted on before the commit"
        connection.commit()
        assert ran.wait(60)


@pytest.mark.parametrize("kind", ["asyncpg", "async-psycopg", "asyncpg-sqlalchemy-session"])
@pytest.mark.parametrize("commits", [True, False])
def test_coroutines_have_the_same_from_their_runtime(postgres_server, kind, commits):
    caller = KINDS[kind](postgres_server)
    try:
        queue, connection = caller.queue.asynchronous, caller.connection
        block = caller._block if kind == "asyncpg" else connection

        async def run():
            async def execute(job, _token):
                await queue.enqueue(job_id="next", connection=connection)
                await queue.acknowledge(job, "kept", connection=connection)
                await (block.commit if commits else block.rollback)()
                return Completed("another")

            await queue.enqueue(job_id="a")
            async with bandog.AsyncWatchdog(queue, execute) as dog:
                return await dog.tick()

        assert caller.call(run).outcome == (Completed("kept") if commits else bandog.Failed(NOT_COMMITTED))
        assert caller.jobs() == (["a", "next"] if commits else ["a"])
    finally:
        caller.stop()


@pytest.mark.parametrize("word", ["done", "committed"])
@pytest.mark.parametrize("task", ["enqueue", "settle"])
def test_a_process_that_is_killed_leaves_both_or_neither(queue, url, connect, task, word):
    if task == "settle":
        queue.enqueue(job_id="a")
    with nursery() as start:
        child = start(Path(__file__).with_name("killed_on_server.py"), url, task)
        heard = child.hear()
        while heard != word:
            heard = child.ask("on")
        child.kill()
    kept = word == "committed"
    # The server notices by itself that nobody is there any more.
    connection = connect()
    connection.execute("LOCK TABLE business")
    assert connection.execute("SELECT word FROM business").fetchall() == ([("paid",)] if kept else [])
    connection.rollback()
    if task == "settle":
        assert queue.read("a").state == ("settled" if kept else "running")
    else:
        assert [record.job_id for record in queue.jobs()] == (["a"] if kept else [])
