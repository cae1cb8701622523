"""No call blocks the event loop or takes a thread, and loops may share a queue."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

import bandog

BEATS = 60
"""So many turns of the loop while the lock is held show that it is free."""


class Heart:
    """Counts turns of the loop."""

    def __init__(self) -> None:
        self.beats = 0

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(0.002)
            self.beats += 1

    async def wait(self, beats: int) -> None:
        enough = self.beats + beats
        async with asyncio.timeout(30):
            while self.beats < enough:  # noqa: ASYNC110 - its turns are what is counted
                await asyncio.sleep(0.002)


@asynccontextmanager
async def beating() -> AsyncIterator[Heart]:
    heart = Heart()
    task = asyncio.create_task(heart.beat())
    try:
        yield heart
    finally:
        task.cancel()


WRITES = {
    "ingest": lambda queue, _claim: queue.ingest(bandog.Job()),
    "ingest_many": lambda queue, _claim: queue.ingest_many([bandog.Job(), bandog.Job()]),
    "enqueue": lambda queue, _claim: queue.enqueue(1),
    "claim": lambda queue, _claim: queue.claim(),
    "renew": lambda queue, claim: queue.renew(claim),
    "settle": lambda queue, claim: queue.settle(claim, bandog.Completed()),
    "settle_many": lambda queue, claim: queue.settle_many([(claim, bandog.Completed())]),
    "acknowledge": lambda queue, claim: queue.acknowledge(claim),
    "fail": lambda queue, claim: queue.fail(claim, "why"),
    "cancelled": lambda queue, claim: queue.cancelled(claim),
    "outcome_unknown": lambda queue, claim: queue.outcome_unknown(claim),
    "release": lambda queue, claim: queue.release(claim),
    "cancel": lambda queue, _claim: queue.cancel("due"),
    "fail_lane": lambda queue, _claim: queue.fail_lane("default", "default", "why"),
    "set_lane_limit": lambda queue, _claim: queue.set_lane_limit("default", "default", 9),
    "purge": lambda queue, _claim: queue.purge(older_than=0),
    "requeue": lambda queue, _claim: queue.requeue("dead"),
    "tick": lambda queue, _claim: bandog.AsyncWatchdog(queue, nothing).tick(),
}

LOOKS = {
    "read": lambda queue: queue.read("due"),
    "get": lambda queue: queue.get("due"),
    "jobs": lambda queue: queue.jobs(),
    "dead_letters": lambda queue: queue.dead_letters(),
    "stats": lambda queue: queue.stats(),
    "has_pending_work": lambda queue: queue.has_pending_work(),
    "next_wake": lambda queue: queue.next_wake(),
}


async def nothing(_job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    """An executor with nothing to do."""


async def filled(path) -> tuple[bandog.AsyncQueue, bandog.ClaimedJob]:
    """A queue with a job that is running, one that is due, and a dead letter."""
    queue = await bandog.connect_async(path, busy_timeout=30)
    await queue.enqueue(job_id="dead", priority=9)
    await queue.fail((await queue.claim())[0], "why")
    await queue.enqueue(job_id="running", priority=9)
    (claim,) = await queue.claim(lease=300)
    await queue.enqueue(job_id="due")
    return queue, claim


@pytest.mark.parametrize("call", WRITES)
def test_the_loop_turns_while_a_call_waits_for_the_write_lock(path, locked, call):
    async def main() -> None:
        queue, claim = await filled(path)
        async with queue, beating() as heart:
            with locked():
                waiting = asyncio.create_task(WRITES[call](queue, claim))
                await heart.wait(BEATS)
                assert not waiting.done()
            async with asyncio.timeout(30):
                await waiting

    asyncio.run(main())


@pytest.mark.parametrize("call", LOOKS)
def test_a_look_is_answered_while_another_connection_holds_the_write_lock(path, locked, call):
    async def main() -> None:
        queue, _ = await filled(path)
        async with queue, beating():
            with locked():
                async with asyncio.timeout(10):
                    await LOOKS[call](queue)

    asyncio.run(main())


def test_the_loop_turns_while_a_queue_is_opened_and_while_one_is_closed(path, locked):
    async def main() -> None:
        async with beating() as heart:
            with locked():
                # The lock was there before the tables, so that opening waits for it.
                opening = asyncio.create_task(bandog.connect_async(path, busy_timeout=30))
                await heart.wait(BEATS)
                assert not opening.done()
            queue = await opening
            with locked():
                call = asyncio.create_task(queue.enqueue(job_id="under way"))
                await heart.wait(3)
                closing = asyncio.create_task(queue.close())
                await heart.wait(BEATS)
                assert not closing.done()
            async with asyncio.timeout(30):
                await asyncio.gather(call, closing)
        async with await bandog.connect_async(path) as queue:
            assert (await queue.read("under way")).state == "queued"

    asyncio.run(main())


def test_the_loop_turns_while_a_runtime_is_made_that_adopts_claims_of_a_probing_one(path, locked):
    with bandog.connect(path) as gone:
        gone.enqueue(job_id="a")
        gone.engine.claim(worker="gone", queues=None, limit=1, lease=None, keep=False).wait()

    async def main() -> None:
        async with await bandog.connect_async(path, busy_timeout=2) as queue:
            loop = asyncio.get_running_loop()
            with locked():
                before = loop.time()
                with suppress(bandog.StoreBusy):
                    bandog.AsyncWatchdog(queue, nothing)
                assert loop.time() - before < 1, "making the runtime held the loop up"

    asyncio.run(main())


def native_threads() -> int:
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208 - their number is all that is wanted


def test_five_hundred_calls_at_once_take_no_thread_each(path, locked):
    async def main() -> None:
        async with await bandog.connect_async(path, busy_timeout=60) as queue:
            await asyncio.gather(*(queue.enqueue(job_id=f"warm-{number}") for number in range(4)))
            await asyncio.gather(*(queue.read(f"warm-{number}") for number in range(4)))
            before, most = native_threads(), 0
            with locked():
                calls = [asyncio.create_task(queue.enqueue(job_id=f"{number}")) for number in range(500)]
                looks = [asyncio.create_task(queue.read("warm-0")) for _ in range(500)]
                for _ in range(50):
                    await asyncio.sleep(0.002)
                    most = max(most, native_threads())
                assert not any(call.done() for call in calls)
            answers = await asyncio.gather(*calls)
            assert {record.job_id for record in await asyncio.gather(*looks)} == {"warm-0"}
            assert {answer.kind for answer in answers} == {"admitted"}
            assert [answer.job_id for answer in answers] == [f"{number}" for number in range(500)]
            most = max(most, native_threads())
            assert most - before <= 2, (before, most)

    asyncio.run(main())


def test_several_loops_share_a_queue_and_each_gets_its_own_answers(path):
    queue = asyncio.run(bandog.connect_async(path))  # whose loop is closed by now
    problems: list[str] = []
    ran: list[str] = []

    async def worker(name: str) -> None:
        thread = threading.current_thread()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: problems.append(str(context)))
        answers = await asyncio.gather(*(queue.enqueue(name, job_id=f"{name}-{number}") for number in range(100)))
        assert [answer.job_id for answer in answers] == [f"{name}-{number}" for number in range(100)]

        async def execute(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
            assert threading.current_thread() is thread
            ran.append(job.job_id)

        dog = bandog.AsyncWatchdog(queue, execute)
        while (await dog.tick()).kind == "settled":
            pass

    def run(name: str) -> None:
        try:
            asyncio.run(worker(name))
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            problems.append(repr(error))

    threads = [threading.Thread(target=run, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert problems == []
    assert sorted(ran) == sorted(f"{name}-{number}" for name in "abcd" for number in range(100))
    assert asyncio.run(queue.has_pending_work()) is False
    asyncio.run(queue.close())
