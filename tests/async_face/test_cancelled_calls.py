"""A call whose caller was cancelled is carried out wholly or not at all; claims that nobody took are handed back."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import closing, suppress
from typing import Any

import pytest

import bandog

ROUNDS = 150


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run, and fail for what the loop would only log: a future whose exception nobody fetched, a late answer."""
    complaints: list[str] = []

    async def watched() -> None:
        handler = lambda _loop, context: complaints.append(str(context))  # noqa: E731
        asyncio.get_running_loop().set_exception_handler(handler)
        await main

    asyncio.run(watched())
    assert complaints == []


async def until(condition: Callable[[], Awaitable[object]], what: str) -> None:
    deadline = time.monotonic() + 30
    while not await condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        await asyncio.sleep(0.002)


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def running_jobs(path) -> int:
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        return connection.execute("SELECT count(*) FROM bandog_lease").fetchone()[0]


async def assert_handed_back(queue: bandog.AsyncQueue, path, job_id: str = "a") -> None:
    """Claimable at once by another, and the attempt given back."""

    async def queued() -> bool:
        record = await queue.read(job_id)
        return (record.state, record.attempts, record.given_back) == ("queued", 1, 1)

    await until(queued, "the claim is handed back")
    assert queue.engine.held() == 0
    async with await bandog.connect_async(path) as other:
        (claim,) = await other.claim(lease=30)
        assert (claim.job_id, claim.charged) == (job_id, 1)


def test_a_batch_cancelled_at_any_moment_is_stored_wholly_or_not_at_all(path):
    chance = random.Random(4)

    async def main() -> None:
        async with await bandog.connect_async(path, synchronous="normal") as queue:
            for number in range(ROUNDS):
                jobs = [bandog.Job(job_id=f"{number}-{part}", queue=f"{number}") for part in range(20)]
                task = asyncio.create_task(queue.ingest_many(jobs))
                for _ in range(chance.randrange(3)):
                    await asyncio.sleep(0)
                await asyncio.sleep(chance.random() * 0.004)
                await cancelled(task)
                assert (await queue.enqueue(job_id=f"{number}-after", queue="after")).kind == "admitted"
        async with await bandog.connect_async(path) as queue:
            stats = (await queue.stats()).queues
            assert stats["after"].queued == ROUNDS
            assert {stats[name].queued for name in stats if name != "after"} == {20}

    run(main())


def test_an_enqueue_cancelled_before_its_task_ran_stores_nothing(path):
    async def main() -> None:
        async with await bandog.connect_async(path) as queue:
            await cancelled(asyncio.create_task(queue.enqueue(job_id="a")))
            with pytest.raises(bandog.JobNotFound):
                await queue.read("a")

    run(main())


def test_a_call_that_timed_out_is_carried_out_and_the_queue_goes_on(path, locked):
    async def main() -> None:
        async with await bandog.connect_async(path, busy_timeout=30) as queue:
            with locked():
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(queue.enqueue(job_id="waited for"), 0.05)
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await queue.enqueue(job_id="in a block")
            assert (await queue.enqueue(job_id="after")).kind == "admitted"
            assert {record.job_id for record in await queue.jobs()} == {"waited for", "in a block", "after"}
            assert await asyncio.wait_for(queue.has_pending_work(), 30)

    run(main())


def test_a_call_that_fails_after_its_caller_is_gone_complains_to_nobody(path, locked):
    async def main() -> None:
        async with await bandog.connect_async(path, busy_timeout=0.1) as queue:
            with locked():
                for _ in range(5):
                    task = asyncio.create_task(queue.enqueue())
                    await asyncio.sleep(0.01)
                    await cancelled(task)
                with pytest.raises(bandog.StoreBusy):
                    await queue.enqueue()
            assert (await queue.enqueue()).kind == "admitted"

    run(main())


@pytest.mark.parametrize("runtime", [False, True], ids=["claim", "tick"])
def test_a_claim_cancelled_before_its_answer_hands_the_job_back(path, locked, runtime):
    async def never(_job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
        raise AssertionError("nobody waits for this job's tick")

    async def main() -> None:
        async with await bandog.connect_async(path, busy_timeout=30) as queue:
            await queue.enqueue(job_id="a")
            call = bandog.AsyncWatchdog(queue, never).tick if runtime else queue.claim
            with locked():
                task = asyncio.create_task(call())
                await asyncio.sleep(0.05)
                assert not task.done()
                await cancelled(task)
                assert task.cancelled()
            await assert_handed_back(queue, path)

    run(main())


@pytest.mark.parametrize("runtime", [False, True], ids=["claim", "tick"])
def test_a_claim_cancelled_between_its_answer_and_its_task_hands_the_job_back(path, runtime):
    """The answer is in the loop, but the task that waits for it has not run yet."""
    ran: list[str] = []

    async def execute(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
        ran.append(job.job_id)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with await bandog.connect_async(path) as queue:
            await queue.enqueue(job_id="a")
            call = bandog.AsyncWatchdog(queue, execute).tick if runtime else queue.claim
            answered = threading.Event()
            real = loop.call_soon_threadsafe

            def noticed(*arguments: Any, **options: Any) -> Any:
                handle = real(*arguments, **options)
                answered.set()
                return handle

            loop.call_soon_threadsafe = noticed
            task = asyncio.create_task(call())
            await asyncio.sleep(0)
            # The loop is held up until the answer is queued, and the cancellation is queued behind it.
            assert answered.wait(30)
            del loop.call_soon_threadsafe
            loop.call_soon(task.cancel)
            with suppress(asyncio.CancelledError):
                await task
            assert task.cancelled()
            assert ran == []
            await assert_handed_back(queue, path)

    run(main())


def test_claims_cancelled_at_any_moment_leave_every_job_to_others(path):
    chance = random.Random(5)

    async def main() -> None:
        async with await bandog.connect_async(path, synchronous="normal") as queue:
            await queue.ingest_many([bandog.Job(job_id=f"{number}") for number in range(ROUNDS)])
            taken: set[str] = set()
            for _ in range(ROUNDS):
                task = asyncio.create_task(queue.claim(limit=5, lease=300))
                for _ in range(chance.randrange(3)):
                    await asyncio.sleep(0)
                await asyncio.sleep(chance.random() * 0.003)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    for claim in await task:
                        taken.add(claim.job_id)
                        await queue.release(claim)

            async def none_running() -> bool:
                return running_jobs(path) == 0

            await until(none_running, "all claims are handed back")
            claims = await queue.claim(limit=ROUNDS * 2, lease=300)
            assert {claim.job_id for claim in claims} == {f"{number}" for number in range(ROUNDS)}
            assert {claim.charged for claim in claims} == {1}

    run(main())


def test_a_claim_whose_loop_is_closed_hands_the_job_back(path, locked):
    queue = asyncio.run(bandog.connect_async(path, busy_timeout=30))
    asyncio.run(queue.enqueue(job_id="a"))

    async def leave() -> None:
        task = asyncio.create_task(queue.claim())
        await asyncio.sleep(0.05)
        assert not task.done()

    with locked():
        asyncio.run(leave())  # which cancels the task, and closes the loop

    async def main() -> None:
        await assert_handed_back(queue, path)
        await queue.close()

    run(main())


def test_a_thousand_abandoned_calls_leave_a_queue_that_works(path):
    async def main() -> None:
        async with await bandog.connect_async(path, synchronous="normal") as queue:
            tasks = [asyncio.create_task(queue.enqueue(job_id=f"{number}")) for number in range(1000)]
            await asyncio.sleep(0.002)
            for task in tasks:
                task.cancel()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            assert len(answers) == 1000
            assert {type(answer) for answer in answers} <= {bandog.Admission, asyncio.CancelledError}
            assert (await queue.enqueue(job_id="after")).kind == "admitted"
            assert len(asyncio.all_tasks()) == 1
            for answer in answers:
                if isinstance(answer, bandog.Admission):
                    assert (await queue.read(answer.job_id)).state == "queued"

    run(main())
