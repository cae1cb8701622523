"""Others notice a commit on the caller's connection by themselves, and nothing before it."""

import asyncio
import queue as queues
import sqlite3
import threading
from contextlib import closing

import pytest

import bandog

PATIENCE = 30.0


@pytest.fixture
def calls():
    return queues.SimpleQueue()


def test_the_wake_comes_with_the_commit(path, calls):
    with bandog.connect(path, wake=calls.put) as queue, closing(sqlite3.connect(path)) as connection:
        assert calls.get(timeout=PATIENCE) is None, "the first call, with nothing to do"
        queue.enqueue(job_id="a", connection=connection)
        # What is told from here on may have been seen before the commit, but tells of nothing.
        connection.commit()
        deadline = queue.read("a").available_at
        while (told := calls.get(timeout=PATIENCE)) is None:
            pass
        assert told == deadline


def test_a_rollback_is_no_news(path, calls):
    with bandog.connect(path, wake=calls.put) as queue, closing(sqlite3.connect(path)) as connection:
        assert calls.get(timeout=PATIENCE) is None
        queue.enqueue(job_id="a", connection=connection)
        connection.rollback()
        queue.enqueue(job_id="b")
        told = calls.get(timeout=PATIENCE)
        while told is None:
            told = calls.get(timeout=PATIENCE)
        assert told == queue.read("b").available_at


def test_a_runtime_starts_the_job_once_it_is_committed(path):
    ran = threading.Event()

    def execute(_job, _token):
        assert words() == ["there"], "what was committed with the job is seen by it"
        ran.set()

    def words():
        with closing(sqlite3.connect(path)) as reader:
            return [word for (word,) in reader.execute("SELECT word FROM business")]

    with bandog.connect(path) as queue, closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE business (word TEXT)")
        with bandog.Watchdog(queue, execute) as dog, bandog.Timer(queue, dog, poll=600):
            connection.execute("INSERT INTO business VALUES ('there')")
            queue.enqueue(job_id="a", connection=connection)
            assert not ran.is_set()
            connection.commit()
            assert ran.wait(PATIENCE)


def test_a_runtime_of_coroutines_starts_the_job_once_it_is_committed(path):
    async def run():
        ran = asyncio.Event()

        async def execute(_job, _token):
            ran.set()

        async with await bandog.connect_async(path) as queue:
            with closing(sqlite3.connect(path)) as connection:
                async with (
                    bandog.AsyncWatchdog(queue, execute) as dog,
                    bandog.AsyncTimer(queue, dog, poll=600),
                ):
                    await queue.enqueue(job_id="a", connection=connection)
                    assert not ran.is_set()
                    connection.commit()
                    async with asyncio.timeout(PATIENCE):
                        await ran.wait()

    asyncio.run(run())
