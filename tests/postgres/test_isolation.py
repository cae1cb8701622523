"""C19: a database whose transactions are SERIALIZABLE by default. Ours say what they are."""

import threading

import pytest
from steps import Background

from bandog import Job

JOBS = 500
WORKERS = 8


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_no_default_isolation_costs_a_job_or_raises(database, level):
    database.execute(f"ALTER DATABASE {database.name} SET default_transaction_isolation = '{level}'")
    assert database.execute("SHOW default_transaction_isolation") == [(level,)]
    queues = [database.queue() for _ in range(4)]
    queues[0].ingest_many(Job(job_id=f"{number}", max_attempts=3) for number in range(JOBS))
    started = threading.Barrier(WORKERS)

    def work(worker):
        queue = queues[worker % len(queues)]
        done = []
        started.wait(30)
        while claims := queue.claim(limit=3):
            for claim in claims:
                if claim.attempt == 1 and claim.job_id.endswith("7"):
                    queue.fail(claim, "once", retry_in=0)
                else:
                    queue.acknowledge(claim)
                    done.append(claim.job_id)
                if len(done) % 10 == 0:
                    queue.enqueue(job_id=f"{worker}-{claim.job_id}-{claim.attempt}", delay=3600)
        return done

    working = [Background(lambda worker=worker: work(worker)) for worker in range(WORKERS)]
    done = [job_id for thread in working for job_id in thread.join(120)]
    done += [claim.job_id for claim in queues[0].claim(limit=JOBS)]
    assert sorted(done, key=int) == [f"{number}" for number in range(JOBS)]


def test_a_database_that_is_read_only_by_default_says_so(database):
    queue = database.queue()
    database.execute(f"ALTER DATABASE {database.name} SET default_transaction_read_only = on")
    reader = database.queue()
    assert reader.has_pending_work() is False
    assert queue.has_pending_work() is False
