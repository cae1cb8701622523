"""C37: the same id in somebody else's transaction, which has not ended yet. Nobody is told what may not come to be."""

import random
import threading
import time
from collections import Counter
from contextlib import closing

import pytest
from steps import Background, wait_until

from bandog import Job, JobConflict, StoreBusy
from bandog.sql import statement

TYPES = (
    "text[], text[], text[], int4[], text[], int8[], int8[], int8[], int8[], float8[], int8[], timestamptz[], float8[]"
)


def rival(connection, job_id, payload="1"):
    """Ingest as an application does on its own connection, and leave the transaction open."""
    connection.execute(f"PREPARE ingest({TYPES}, bool) AS {statement('postgres', 'ingest')}".encode())
    connection.execute("BEGIN")
    row = f"'{{{job_id}}}', '{{default}}', '{{default}}', '{{0}}', '{{{payload}}}'"
    rest = ", ".join(["'{NULL}'"] * 7 + ["'{0}'", "false"])
    admitted = connection.execute(f"EXECUTE ingest({row}, {rest})".encode()).fetchall()
    assert len(admitted) == 1


def is_waiting(database):
    """Whether some statement of ours waits for a transaction."""
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
    return database.execute(waits)[0][0] > 0


def test_an_id_that_is_rolled_back_is_admitted(database, queue):
    with closing(database.connection()) as other:
        rival(other, "k")
        ingesting = Background(lambda: queue.ingest(Job(job_id="k", payload=1)))
        wait_until(lambda: is_waiting(database), "the call meets the other transaction")
        other.execute("ROLLBACK")
        assert ingesting.join().kind == "admitted"
    assert [claim.job_id for claim in queue.claim(limit=9)] == ["k"]


@pytest.mark.parametrize("payload", [1, 2])
def test_an_id_that_is_committed_is_a_duplicate_or_a_conflict(database, queue, payload):
    with closing(database.connection()) as other:
        rival(other, "k")
        ingesting = Background(lambda: queue.ingest(Job(job_id="k", payload=payload)))
        wait_until(lambda: is_waiting(database), "the call meets the other transaction")
        other.execute("COMMIT")
        if payload == 1:
            assert ingesting.join().kind == "duplicate"
        else:
            with pytest.raises(JobConflict):
                ingesting.join()
    assert [claim.job_id for claim in queue.claim(limit=9)] == ["k"]


def test_a_rival_that_stays_is_said_to_be_in_the_way(database):
    queue = database.queue(busy_timeout=0.5)
    with closing(database.connection()) as other:
        rival(other, "k")
        started = time.monotonic()
        with pytest.raises(StoreBusy):
            queue.ingest_many([Job(job_id="before"), Job(job_id="k", payload=1)])
        assert time.monotonic() - started >= 0.5
        other.execute("COMMIT")
    # One call is one transaction.
    assert [claim.job_id for claim in queue.claim(limit=9)] == ["k"]


def test_a_rival_holds_up_nobody_who_has_other_ids(database, queue):
    """All of them share a handle, and so a link and its batches."""
    with closing(database.connection()) as other:
        rival(other, "k")
        ingesting = Background(lambda: queue.ingest(Job(job_id="k", payload=1)))
        wait_until(lambda: is_waiting(database), "the call meets the other transaction")
        beside = [Background(lambda n=n: [queue.enqueue(job_id=f"{n}-{m}").kind for m in range(20)]) for n in range(4)]
        for thread in beside:
            assert thread.join() == ["admitted"] * 20
        other.execute("ROLLBACK")
        assert ingesting.join().kind == "admitted"


def test_under_repeatable_read_the_rule_is_the_same(database, queue):
    with closing(database.connection()) as other:
        other.execute("SET default_transaction_isolation = 'repeatable read'")
        rival(other, "k")
        ingesting = Background(lambda: queue.ingest(Job(job_id="k", payload=1)))
        wait_until(lambda: is_waiting(database), "the call meets the other transaction")
        other.execute("ROLLBACK")
        assert ingesting.join().kind == "admitted"


def test_twenty_threads_and_the_same_keys_make_one_job_each(database):
    queues = [database.queue() for _ in range(4)]
    keys = [f"key-{number}" for number in range(500)]
    started = threading.Barrier(20)

    def ingest(thread):
        own = random.Random(thread)
        mine = own.sample(keys, len(keys))
        started.wait(30)
        admitted = []
        for first in range(0, len(mine), 25):
            jobs = [Job(job_id=key, payload=key) for key in mine[first : first + 25]]
            answers = queues[thread % 4].ingest_many(jobs)
            assert {answer.kind for answer in answers} <= {"admitted", "duplicate"}
            assert [answer.job_id for answer in answers] == [job.job_id for job in jobs]
            admitted += [answer.job_id for answer in answers if answer.kind == "admitted"]
        return admitted

    threads = [Background(lambda thread=thread: ingest(thread)) for thread in range(20)]
    admitted = Counter(key for thread in threads for key in thread.join(120))
    assert admitted == Counter(keys)
    assert sorted(claim.job_id for claim in queues[0].claim(limit=1000)) == sorted(keys)
