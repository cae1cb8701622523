"""Links that break: the server closes them, or the process forks."""

import logging
import os
import time
from contextlib import suppress

import pytest
from orphans import orphan
from steps import Background, wait_until

import bandog
from bandog import Completed, ForkedQueue, Job


def kill(database, backends):
    killed = set(backends())
    for pid in killed:
        database.execute("SELECT pg_terminate_backend(%s)", (pid,))
    while killed & set(backends()):  # others may have come: a link that has something to tell is made anew by itself
        time.sleep(0.001)


def test_every_call_works_again_after_its_backend_was_killed(database, queue, backends):
    queue.ingest_many(Job(job_id=f"{number}", max_attempts=9) for number in range(10))
    calls = {
        "ingest": lambda: queue.enqueue(job_id=f"new-{time.monotonic_ns()}").kind == "admitted",
        "claim": lambda: len(queue.claim()) == 1,
        "read": lambda: queue.read("0").job_id == "0",
        "stats": lambda: queue.stats().outcomes is not None,
        "recover": lambda: queue.recover() == ((), ()),
        "cancel": lambda: queue.cancel("9").kind in {"cancelled", "settled"},
    }
    for call in calls.values():
        assert call()
    claims = queue.claim(limit=3)
    kill(database, backends)
    for name, call in calls.items():
        assert call(), name
    assert queue.renew(claims[0]) is None
    kill(database, backends)
    assert queue.renew(claims[0]) is None
    assert queue.acknowledge(claims[0]).kind == "completed"
    kill(database, backends)
    assert queue.fail(claims[1], "why", retry_in=60).kind == "retried"


def work_until(queue, done, jobs):
    """Claim and settle; what is not known to be done is found out by claiming again."""
    while len(done) < jobs and queue_has_work(queue):
        with suppress(bandog.StoreFailed):
            claims = queue.claim(limit=20, lease=1)
            settlements = queue.settle_many([(claim, Completed()) for claim in claims])
            settled = zip(claims, settlements, strict=True)
            done += [claim.job_id for claim, settlement in settled if settlement.kind == "completed"]


def queue_has_work(queue):
    """Asked until there is an answer."""
    while True:
        with suppress(bandog.StoreFailed):
            return queue.has_pending_work()


def test_jobs_run_once_while_backends_are_killed(database, backends):
    """Whatever a call was doing: it is done, or told that it is not known, and then it is not lost."""
    workers = [database.queue() for _ in range(2)]
    jobs = 2_000
    workers[0].ingest_many(Job(job_id=f"{number}", max_recoveries=100) for number in range(jobs))
    done = []
    stopped = []

    def disturb():
        while not stopped:
            for pid in backends():
                database.execute("SELECT pg_terminate_backend(%s)", (pid,))
            time.sleep(0.05)

    disturbing = Background(disturb)
    working = [Background(lambda queue=queue: work_until(queue, done, jobs)) for queue in workers]
    try:
        for thread in working:
            thread.join(120)
    finally:
        stopped.append(True)
    disturbing.join()
    queue = database.queue()
    assert not queue.has_pending_work()
    assert queue.stats(bound=jobs).outcomes["completed"] == jobs
    assert len(done) == len(set(done))


def test_trouble_is_logged_once_a_second_and_without_secrets(database, backends, caplog):
    url = database.url.replace("postgres@", "postgres:hunter2@").replace("postgres:@", "postgres:hunter2@")
    queue = database.queue(url=url)
    with caplog.at_level(logging.DEBUG):
        started = time.monotonic()
        for _ in range(20):
            queue.enqueue()
            queue.claim()
            kill(database, backends)
        seconds = time.monotonic() - started
    complaints = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert 1 <= len(complaints) <= seconds + 1
    assert "hunter2" not in caplog.text
    assert "hunter2" not in repr(queue)
    assert "hunter2" not in str(queue.engine)


def test_a_server_that_is_not_there_is_said_at_once():
    with pytest.raises(bandog.CannotOpen) as caught:
        bandog.connect("postgresql://ada:hunter2@127.0.0.1:1/jobs")
    assert "hunter2" not in str(caught.value)
    assert "127.0.0.1:1/jobs" in str(caught.value)


def test_a_database_that_is_not_there_is_said(database):
    url = database.url.replace("/bandog_alone", "/no_such_database")
    with pytest.raises((bandog.CannotOpen, bandog.StoreFailed), match="does not exist"):
        bandog.connect(url)


def test_a_forked_child_is_refused_the_queue_and_leaves_its_links_alone(database, queue, backends):
    queue.enqueue(job_id="a")
    (claim,) = queue.claim()
    before = sorted(backends())
    assert before
    for _ in range(20):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                queue.enqueue(job_id="from the child")
            except ForkedQueue:
                queue.close()
                del queue
                with bandog.connect(database.url) as own:
                    own.enqueue(job_id=f"child-{os.getpid()}")
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert queue.renew(claim) is None
    assert set(before) <= set(backends())
    assert queue.acknowledge(claim).kind == "completed"
    assert len(queue.jobs(limit=99).jobs) == 21


def test_sessions_end_with_their_process_although_a_child_of_it_lives(database, backends):
    """Or the rows that they have locked would stay so for as long as the child lives."""
    with orphan(database.url) as child:
        wait_until(lambda: backends() == [], "the sessions of the killed parent end")
        os.kill(child, 0)
