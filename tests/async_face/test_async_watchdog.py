"""AsyncWatchdog where a task differs from a thread: cancellation, context variables, single flight, probes."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from contextlib import suppress

import pytest

import bandog
from bandog import AsyncWatchdog, Cancelled, Completed, Failed, Job, OutcomeUnknown, Release, Snooze, Tick

current: contextvars.ContextVar[str] = contextvars.ContextVar("current", default="nothing")


def run(path, main):
    """Run ``main(queue)`` and fail for what the loop would only log."""
    complaints = []

    async def opened():
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(str(context)))
        async with await bandog.connect_async(path) as queue:
            await main(queue)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(opened())
    assert complaints == []


# Cancellation: that of the host ends the tick, that of the executor is a failure.


def test_an_executor_s_own_cancelled_error_is_a_failure_and_the_runtime_goes_on(path):
    async def execute(job, _cancel):
        if job.job_id == "own":
            raise asyncio.CancelledError

    async def main(queue):
        await queue.ingest_many([Job(job_id="own", priority=1), Job(job_id="next")])
        dog = AsyncWatchdog(queue, execute)
        done = await dog.tick()
        assert (done.kind, done.outcome.kind) == ("settled", "failed")
        assert "CancelledError" in done.outcome.reason
        assert asyncio.current_task().cancelling() == 0
        assert await dog.tick() == Tick(kind="settled", job_id="next", outcome=Completed())

    run(path, main)


def test_a_task_that_the_executor_cancelled_itself_is_a_failure_of_its_own(path):
    async def execute(_job, _cancel):
        inner = asyncio.create_task(asyncio.sleep(60))
        inner.cancel()
        await inner

    async def main(queue):
        await queue.enqueue(job_id="a")
        done = await AsyncWatchdog(queue, execute).tick()
        assert (done.kind, done.outcome.kind) == ("settled", "failed")

    run(path, main)


def test_cancelling_a_tick_cancels_its_executor_once_records_that_and_goes_on(path):
    caught = []

    async def main(queue):
        await queue.ingest_many([Job(job_id="a", priority=1, max_attempts=3), Job(job_id="next")])
        started = asyncio.Event()

        async def execute(job, _cancel):
            if job.job_id == "next":
                return
            started.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                caught.append(job.job_id)
                raise

        dog = AsyncWatchdog(queue, execute)
        task = asyncio.create_task(dog.tick())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert caught == ["a"]
        record = await queue.read("a")
        assert (record.state, record.attempts, record.charged) == ("queued", 1, 1)
        assert "CancelledError" in record.error
        assert queue.engine.held() == 0
        # The runtime is not left busy.
        assert (await dog.tick()).job_id == "next"

    run(path, main)


@pytest.mark.parametrize(
    "report", [None, Completed("done"), OutcomeUnknown("asked"), Failed("why"), Snooze(9), Release()], ids=repr
)
def test_an_executor_that_answers_its_cancellation_with_a_report_has_it_recorded(path, report):
    async def main(queue):
        await queue.enqueue(job_id="a")
        started = asyncio.Event()

        async def execute(_job, _cancel):
            started.set()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            return report

        task = asyncio.create_task(AsyncWatchdog(queue, execute).tick())
        await started.wait()
        task.cancel()
        # The executor swallowed the cancellation: whether the tick ends with it or with its answer, the job is right.
        with suppress(asyncio.CancelledError):
            await task
        record = await queue.read("a")
        if isinstance(report, Snooze | Release):
            assert (record.state, record.charged) == ("queued", 0)
        else:
            assert record.outcome == (report or Completed())
        assert queue.engine.held() == 0

    run(path, main)


@pytest.mark.parametrize("cancellations", [1, 2, 5])
def test_a_tick_cancelled_while_its_outcome_is_recorded_records_it_and_is_cancelled(path, locked, cancellations):
    async def main(queue):
        await queue.enqueue(job_id="a")
        ended = asyncio.Event()

        async def execute(_job, _cancel):
            lock.__enter__()
            ended.set()
            return Completed("kept")

        lock = locked()
        task = asyncio.create_task(AsyncWatchdog(queue, execute).tick())
        await ended.wait()
        try:
            for _ in range(cancellations):
                await asyncio.sleep(0.03)
                task.cancel()
                await asyncio.sleep(0)
        finally:
            lock.__exit__(None, None, None)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 30)
        async with asyncio.timeout(30):
            while (await queue.read("a")).state == "running":  # noqa: ASYNC110 - the engine has no event for it
                await asyncio.sleep(0.005)
        assert (await queue.read("a")).outcome == Completed("kept")
        assert queue.engine.held() == 0

    run(path, main)


def test_a_tick_that_timed_out_is_a_failure_of_its_job(path):
    async def execute(_job, _cancel):
        await asyncio.sleep(60)

    async def main(queue):
        await queue.enqueue(job_id="a")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(AsyncWatchdog(queue, execute).tick(), 0.2)
        assert (await queue.read("a")).outcome.kind == "failed"

    run(path, main)


def test_the_token_of_a_cancelled_job_stops_its_executor(path):
    async def execute(job, cancel):
        await asyncio.create_task(queues[0].cancel(job.job_id, "no longer wanted"))
        assert await asyncio.to_thread(cancel.wait, 30)
        return Cancelled(cancel.detail)

    queues = []

    async def main(queue):
        queues.append(queue)
        await queue.enqueue(job_id="a")
        assert (await AsyncWatchdog(queue, execute).tick()).outcome == Cancelled("no longer wanted")

    run(path, main)


# Single flight.


def test_of_ticks_in_several_tasks_one_runs_and_the_others_are_busy(path):
    async def main(queue):
        await queue.ingest_many([Job(job_id="a", priority=1), Job(job_id="b")])
        go_on = asyncio.Event()

        async def execute(_job, _cancel):
            await go_on.wait()

        dog = AsyncWatchdog(queue, execute)
        ticks = [asyncio.create_task(dog.tick()) for _ in range(5)]
        done, waiting = await asyncio.wait(ticks, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        while len(done) < 4:
            more, waiting = await asyncio.wait(waiting, timeout=30, return_when=asyncio.FIRST_COMPLETED)
            done |= more
        assert {task.result().kind for task in done} == {"busy"}
        assert await dog.tick() == Tick(kind="busy")
        go_on.set()
        (first,) = waiting
        assert (await first).job_id == "a"
        assert (await queue.read("b")).attempts == 0
        assert (await dog.tick()).job_id == "b"

    run(path, main)


def test_a_tick_in_another_loop_is_busy_too(path):
    async def main(queue):
        await queue.enqueue(job_id="a")

        async def execute(_job, _cancel):
            other = await asyncio.to_thread(lambda: asyncio.run(dog.tick()))
            return Completed(other.kind)

        dog = AsyncWatchdog(queue, execute)
        assert (await dog.tick()).outcome == Completed("busy")

    run(path, main)


# Context variables (C45).


def test_a_variable_reaches_a_thread_of_the_same_job_and_no_other_job(path):
    seen = []

    async def execute(job, _cancel):
        seen.append((job.job_id, "before", current.get()))
        current.set(job.job_id)
        seen.append((job.job_id, "thread", await asyncio.to_thread(current.get)))

    async def main(queue):
        current.set("host")
        await queue.ingest_many([Job(job_id="a", priority=1), Job(job_id="b")])
        dog = AsyncWatchdog(queue, execute)
        await dog.tick()
        await dog.tick()
        assert current.get() == "host"

    run(path, main)
    assert seen == [("a", "before", "host"), ("a", "thread", "a"), ("b", "before", "host"), ("b", "thread", "b")]


def test_a_variable_of_one_job_is_unknown_to_the_next_one_on_the_synchronous_face(path):
    """In the main thread, and in a thread that is used again."""
    seen = []

    def execute(_job, _cancel):
        seen.append(current.get())
        current.set("left behind")

    with bandog.connect(path) as queue:
        queue.ingest_many([Job() for _ in range(4)])
        dog = bandog.Watchdog(queue, execute)

        def two():
            dog.tick()
            dog.tick()
            seen.append(current.get())

        contextvars.copy_context().run(two)
        thread = threading.Thread(target=two)
        thread.start()
        thread.join(30)
    assert seen == ["nothing"] * 6


def test_a_variable_set_in_a_wake_callback_is_unknown_to_jobs(path):
    called = threading.Event()
    seen = []

    def wake(_due):
        current.set("wake")
        called.set()

    async def execute(_job, _cancel):
        seen.append(current.get())

    async def main(queue):
        queue.wake.add(wake)
        await queue.enqueue()
        assert await asyncio.to_thread(called.wait, 30)
        await AsyncWatchdog(queue, execute).tick()

    run(path, main)
    assert seen == ["nothing"]


# Probes.


@pytest.mark.parametrize("alive", [False, True, ValueError("unknown")], ids=repr)
def test_a_probe_may_be_a_coroutine_function(path, alive):
    with bandog.connect(path) as gone:
        gone.enqueue(job_id="a", max_recoveries=0)
        gone.engine.claim(worker="gone", queues=None, limit=1, lease=None, keep=False).wait()

    async def is_alive(record):
        await asyncio.sleep(0.001)
        assert record.job_id == "a"
        if isinstance(alive, ValueError):
            raise alive
        return alive

    async def execute(_job, _cancel):
        raise AssertionError

    async def main(queue):
        async with AsyncWatchdog(queue, execute, is_alive=is_alive) as dog:
            tick = await dog.tick()
        expected = {
            False: Tick(kind="idle", interrupted=("a",)),
            True: Tick(kind="idle"),
        }
        assert tick == expected.get(alive, Tick(kind="liveness_unknown", unknown="a"))

    run(path, main)
