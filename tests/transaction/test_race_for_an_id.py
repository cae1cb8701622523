"""Many callers with the same keys: never a duplicate of a job that is not there (C37)."""

import random
import sqlite3
import threading
from contextlib import closing

import pytest

import bandog
from bandog import StoreBusy

THREADS = 20
KEYS = 500
ROUNDS = 5


@pytest.fixture
def queue(path):
    with bandog.connect(path, busy_timeout=0.1) as opened:
        yield opened


@pytest.mark.parametrize("rival", ["the queue itself", "another connection"])
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_key_that_another_transaction_holds_is_waited_for(queue, path, rival, end):
    with closing(sqlite3.connect(path)) as first, closing(sqlite3.connect(path, timeout=0.1)) as second:
        queue.enqueue(job_id="k", connection=first)
        connection = second if rival == "another connection" else None
        with pytest.raises((StoreBusy, sqlite3.OperationalError), match="locked"):
            queue.enqueue(job_id="k", connection=connection)
        getattr(first, end)()
        again = queue.enqueue(job_id="k", connection=connection)
        assert again.kind == ("duplicate" if end == "commit" else "admitted")
        second.commit()
    assert [record.job_id for record in queue.jobs()] == ["k"]


def test_twenty_threads_leave_exactly_one_live_job_per_key(path):
    """Half of the transactions are rolled back. A duplicate is told only of what is there to stay."""
    failures = []

    def work(queue, number):
        chance = random.Random(number)
        keys = [f"key-{key}" for key in range(KEYS)]
        chance.shuffle(keys)
        with closing(sqlite3.connect(path, timeout=120)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            for place in range(0, KEYS, KEYS // ROUNDS // 2):
                batch = keys[place : place + KEYS // ROUNDS // 2]
                last = chance.random() < 0.5
                told = [queue.enqueue(job_id=key, connection=connection).kind for key in batch]
                duplicates = [key for key, kind in zip(batch, told, strict=True) if kind == "duplicate"]
                if not set(told) <= {"admitted", "duplicate"}:
                    failures.append(told)
                (connection.commit if last else connection.rollback)()
                # Whoever was told so must find it, now that this transaction is out of the way.
                missing = [key for key in duplicates if queue.read(key).state != "queued"]
                failures.extend(missing)

    def guarded(queue, number):
        try:
            work(queue, number)
        except BaseException as error:  # noqa: BLE001 - a thread that dies must not pass for one that is done
            failures.append(repr(error))

    with bandog.connect(path, busy_timeout=60) as queue:
        threads = [threading.Thread(target=guarded, args=(queue, number)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        # Whatever is missing was rolled back by all of them.
        for key in range(KEYS):
            queue.enqueue(job_id=f"key-{key}")
    with closing(sqlite3.connect(path)) as reader:
        counted = reader.execute("SELECT count(*), count(DISTINCT job_id) FROM bandog_job").fetchone()
        queued = reader.execute("SELECT count(*) FROM bandog_ready JOIN bandog_job USING (number)").fetchone()
    assert (counted, queued) == ((KEYS, KEYS), (KEYS,))
