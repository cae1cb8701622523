"""Timer and AsyncTimer: they run what is due when it is due, stop when told, and outlive a store that fails (C12)."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
import time
from contextlib import closing, suppress
from itertools import pairwise

import pytest
from driven import Driven
from steps import wait_until

import bandog
from bandog import Job

IDLE = float(os.environ.get("BANDOG_IDLE", "3"))
"""Seconds without work before a job comes; 60 is the figure of C12."""

HANDOVERS = int(os.environ.get("BANDOG_HANDOVERS", "4000"))
"""Jobs admitted between an empty tick and the sleep; 10,000 is the figure of C12."""


# A timer's thread that dies of an exception is the finding of one test, not a warning.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture(params=["sync", "async"])
def driven(request, path):
    driven = Driven(request.param, path)
    yield driven
    driven.close()


class Ran:
    """An executor that remembers what it ran, and when."""

    def __init__(self):
        self.at = {}

    def __call__(self, job, _cancel):
        self.at[job.job_id] = time.monotonic()

    def wait(self, job_id, seconds=30.0):
        wait_until(lambda: job_id in self.at, f"{job_id} is run", seconds)
        return self.at[job_id]


def test_a_backlog_is_run_without_a_pause_between_its_jobs(driven):
    queue, ran = driven.connect(synchronous="normal"), Ran()
    queue.ingest_many([Job(job_id=f"{number}") for number in range(300)])
    with driven.timer(queue, ran, poll=3600):
        wait_until(lambda: len(ran.at) == 300, "all are run")
    assert queue.stats().outcomes["completed"] == 300


def test_a_job_is_started_when_it_is_admitted_and_not_at_the_next_poll(driven):
    queue, ran = driven.connect(), Ran()
    with driven.timer(queue, ran, poll=3600):
        for number in range(20):
            queue.enqueue(job_id=f"{number}")
            ran.wait(f"{number}", 10)


def test_a_delayed_job_starts_in_time_after_an_idle_while(driven):
    queue, ran = driven.connect(), Ran()
    with driven.timer(queue, ran, poll=3600):
        time.sleep(IDLE)
        due = time.monotonic() + 1
        queue.enqueue(job_id="a", delay=1)
        # The admission is before the job is due: what is late, is the timer.
        assert abs(ran.wait("a") - due) <= 0.3


def test_an_earlier_job_is_not_late_because_a_later_one_was_slept_for(driven):
    queue, ran = driven.connect(), Ran()
    with driven.timer(queue, ran, poll=3600):
        queue.enqueue(job_id="later", delay=3000)
        due = time.monotonic() + 0.6
        queue.enqueue(job_id="earlier", delay=0.6)
        assert abs(ran.wait("earlier") - due) <= 0.3
    assert "later" not in ran.at


def test_a_retry_and_a_snoozed_job_start_in_time(driven):
    queue, starts = driven.connect(), []

    def execute(_job, _cancel):
        starts.append(time.monotonic())
        if len(starts) == 1:
            return bandog.Failed("why", retry_in=0.5)
        return bandog.Snooze(0.5) if len(starts) == 2 else None

    queue.enqueue(job_id="a", max_attempts=3)
    with driven.timer(queue, execute, poll=3600):
        wait_until(lambda: len(starts) == 3, "it ran three times")
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert all(0.45 <= gap <= 0.9 for gap in gaps), gaps


def test_a_job_of_another_process_is_found_within_a_poll(driven, start):
    queue, ran = driven.connect(), Ran()
    other = start("admitting.py", driven.path)
    assert other.hear() == "ready"
    with driven.timer(queue, ran, poll=0.5):
        time.sleep(1)
        for number in range(3):
            assert other.ask(f"{number}") == f"{number}"
            admitted = time.monotonic()
            assert ran.wait(f"{number}") - admitted <= 0.5 + 0.3
    other.finish()


def test_a_job_admitted_between_an_empty_tick_and_the_sleep_does_not_wait_for_the_poll(driven):
    """Each is admitted at another moment after the one before it has ended, which is when the next tick is empty."""
    queue, ran, slowest = driven.connect(synchronous="normal"), Ran(), 0.0
    with driven.timer(queue, ran, poll=20):
        for number in range(HANDOVERS):
            resume = time.perf_counter() + (number % 50) * 20e-6
            while time.perf_counter() < resume:
                pass
            admitted = time.monotonic()
            queue.enqueue(job_id=f"{number}")
            slowest = max(slowest, ran.wait(f"{number}", 15) - admitted)
    print(f"slowest of {HANDOVERS}: {slowest:.3f} s")
    assert slowest < 5


# Starting and stopping.


def test_stopping_waits_for_the_tick_under_way_and_starts_no_other(driven):
    queue = driven.connect()
    started, ended = threading.Event(), []

    def execute(job, _cancel):
        started.set()
        time.sleep(0.3)
        ended.append(job.job_id)

    queue.ingest_many([Job(job_id="a", priority=1), Job(job_id="b")])
    timer = driven.make(queue, execute, poll=3600)
    timer.start()
    assert started.wait(30)
    timer.stop()
    assert ended == ["a"]
    assert (queue.read("a").state, queue.read("b").attempts) == ("settled", 0)
    queue.enqueue()
    time.sleep(0.2)
    assert ended == ["a"]


def test_starting_and_stopping_twice_is_allowed_and_so_is_starting_again(driven):
    queue, ran = driven.connect(), Ran()
    timer = driven.make(queue, ran, poll=3600)
    timer.stop()
    for number in range(3):
        timer.start()
        timer.start()
        queue.enqueue(job_id=f"{number}")
        ran.wait(f"{number}")
        before = time.monotonic()
        timer.stop()
        timer.stop()
        assert time.monotonic() - before < 5


def test_an_idle_timer_stops_at_once(driven):
    timer = driven.make(driven.connect(), Ran(), poll=3600)
    timer.start()
    time.sleep(0.1)
    before = time.monotonic()
    timer.stop()
    assert time.monotonic() - before < 2


def test_a_queue_that_is_closed_ends_the_timer_and_stopping_it_is_no_error(driven, caplog):
    queue, ran = driven.connect(), Ran()
    timer = driven.make(queue, ran, poll=0.05)
    timer.start()
    queue.enqueue(job_id="a")
    ran.wait("a")
    queue.close()
    before = time.monotonic()
    timer.stop()
    assert time.monotonic() - before < 2
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_an_executor_that_closes_the_queue_ends_the_timer(driven):
    queue, ran = driven.connect(), Ran()

    def execute(job, cancel):
        ran(job, cancel)
        queue.close()

    timer = driven.make(queue, execute, poll=0.05)
    timer.start()
    queue.enqueue(job_id="a")
    ran.wait("a")
    timer.stop()


# What goes wrong.


def test_a_failing_executor_does_not_end_the_timer(driven):
    queue, ran = driven.connect(), []

    def execute(job, _cancel):
        ran.append(job.job_id)
        raise [ValueError, SystemExit, GeneratorExit, MemoryError][len(ran) % 4]

    queue.ingest_many([Job() for _ in range(20)])
    with driven.timer(queue, execute, poll=3600):
        wait_until(lambda: len(ran) == 20, "all are run")
    assert queue.stats().outcomes["failed"] == 20


def test_a_store_that_is_busy_is_tried_again_with_growing_pauses_until_it_heals(driven, caplog):
    queue, ran = driven.connect(busy_timeout=0.01), Ran()
    queue.enqueue(job_id="a", delay=0.2)
    caplog.set_level(logging.WARNING, "bandog.timer")

    def failures():
        return [record for record in caplog.records if record.name == "bandog.timer"]

    with (
        closing(sqlite3.connect(driven.path, isolation_level=None, timeout=30)) as blocker,
        driven.timer(queue, ran, poll=0.1),
    ):
        blocker.execute("BEGIN IMMEDIATE")
        wait_until(lambda: len(failures()) >= 4, "four ticks fail")
        assert "a" not in ran.at
        blocker.execute("ROLLBACK")
        healed = time.monotonic()
        # At the latest after the longest pause so far, doubled.
        assert ran.wait("a") - healed < 4
        at = [record.created for record in failures()]
        gaps = [later - earlier for earlier, later in pairwise(at)]
        assert gaps[1] > gaps[0] * 1.3, gaps
        assert gaps[2] > gaps[1] * 1.3, gaps


def test_after_a_store_has_healed_the_next_trouble_begins_with_a_short_pause_again(driven):
    """Also where no job was run in between: an idle tick that went well is a store that is well."""
    busy, idle = bandog.StoreBusy("locked", target="it", waited=0.1), bandog.Tick(kind="idle")
    script, at = [busy, busy, busy, busy, idle, busy, busy], []

    def tick():
        at.append(time.monotonic())
        answer = script[len(at) - 1] if len(at) <= len(script) else idle
        if isinstance(answer, Exception):
            raise answer
        return answer

    timer = driven.scripted(driven.connect(), tick, poll=0.1)
    timer.start()
    try:
        wait_until(lambda: len(at) > len(script), "the script is played")
    finally:
        timer.stop()
    gaps = [later - earlier for earlier, later in pairwise(at)]
    assert gaps[1] > gaps[0] * 1.3, gaps
    assert gaps[3] > 0.7, gaps
    assert gaps[5] < 0.5, gaps


def test_a_keyboard_interrupt_of_an_executor_stops_the_thread_s_timer(path, caplog):
    calls = []

    def execute(job, _cancel):
        calls.append(job.job_id)
        raise KeyboardInterrupt

    with bandog.connect(path) as queue:
        queue.ingest_many([Job(job_id="a", priority=1), Job(job_id="b")])
        with bandog.Timer(queue, bandog.Watchdog(queue, execute), poll=0.05):
            wait_until(lambda: any("KeyboardInterrupt" in record.message for record in caplog.records), "it stops")
            time.sleep(0.2)
        assert calls == ["a"]
        assert queue.read("a").outcome.kind == "failed"


def test_a_timer_outlives_what_is_neither_the_executor_s_nor_the_store_s(driven, caplog):
    """A tick that raises something else is a bug somewhere: it is logged, and does not end all work in silence."""
    ticks = []

    def tick():
        ticks.append(1)
        if len(ticks) == 1:
            raise LookupError
        return bandog.Tick(kind="idle")

    timer = driven.scripted(driven.connect(), tick, poll=0.05)
    timer.start()
    try:
        wait_until(lambda: len(ticks) > 2, "it ticks on", 5)
    finally:
        with suppress(LookupError):
            timer.stop()
    assert any(record.levelno >= logging.WARNING and record.exc_info for record in caplog.records)


def test_cancelling_the_task_of_an_asynchronous_timer_s_host_ends_it(path):
    async def execute(_job, _cancel):
        await asyncio.sleep(60)

    async def host(queue, started):
        async with bandog.AsyncTimer(queue, bandog.AsyncWatchdog(queue, execute)):
            while (await queue.read("a")).state != "running":  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.005)
            started.set()

    async def main():
        async with await bandog.connect_async(path) as queue:
            await queue.enqueue(job_id="a")
            started = asyncio.Event()
            task = asyncio.create_task(host(queue, started))
            await started.wait()
            await asyncio.sleep(0.05)  # it waits for the tick under way, as stop() says
            assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, 10)
            # The wait was cancelled, and with it the tick: nothing runs on by itself.
            await asyncio.sleep(0.1)
            assert len(asyncio.all_tasks()) == 1
            assert (await queue.read("a")).outcome.kind == "failed"

    asyncio.run(main())
