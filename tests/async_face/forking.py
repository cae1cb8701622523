"""Forks children in a process whose loops are busy with a queue: `forking.py FILE CHILDREN`. Says `done`."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import threading
from pathlib import Path

import bandog

PATIENCE = 20.0


async def in_child(path: Path, queue: bandog.AsyncQueue, dog: bandog.AsyncWatchdog, name: str) -> None:
    """The inherited queue is refused, at once and by every call; a fresh one works."""
    calls = [queue.enqueue(job_id="never"), queue.claim(), queue.read("never"), queue.next_wake(), dog.tick()]
    for call in calls:
        try:
            await asyncio.wait_for(call, PATIENCE)
        except bandog.ForkedQueue:
            continue
        message = f"{call} was not refused in the child"
        raise AssertionError(message)
    await queue.close()  # does nothing
    async with await bandog.connect_async(path, busy_timeout=PATIENCE) as fresh:
        assert (await fresh.enqueue(job_id=name)).kind == "admitted"
        called = asyncio.Event()
        loop = asyncio.get_running_loop()
        fresh.wake.add(lambda _due: loop.call_soon_threadsafe(called.set))
        await asyncio.wait_for(called.wait(), PATIENCE)

        async def execute(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> bandog.Completed:
            return bandog.Completed(job.job_id)

        tick = await bandog.AsyncWatchdog(fresh, execute, queues="default").tick()
        assert tick.kind == "settled", tick


def fork(path: Path, queue: bandog.AsyncQueue, dog: bandog.AsyncWatchdog, name: str) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            asyncio.run(in_child(path, queue, dog, name))
            code = 0
        except BaseException:  # noqa: BLE001 - shown, and then the child ends without the parent's code
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(code)
    return child


async def main(path: Path, children: int) -> None:
    async with await bandog.connect_async(path, busy_timeout=PATIENCE, synchronous="normal") as queue:

        async def never(_job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
            raise AssertionError

        dog = bandog.AsyncWatchdog(queue, never, queues="nothing")
        over = threading.Event()
        admitted = 0

        async def busy() -> None:
            nonlocal admitted
            while not over.is_set():
                answers = await asyncio.gather(*(queue.enqueue(queue="traffic") for _ in range(10)))
                admitted += len(answers)

        beside = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(busy())))
        here = asyncio.create_task(busy())
        for number in range(children):
            await asyncio.sleep(0.002)
            child = fork(path, queue, dog, f"child-{number}")
            _, status = await asyncio.to_thread(os.waitpid, child, 0)
            assert os.waitstatus_to_exitcode(status) == 0, number
            assert (await queue.read(f"child-{number}")).state in {"queued", "settled"}
        over.set()
        await asyncio.gather(beside, here)
        assert (await queue.stats(bound=10**9)).queues["traffic"].queued == admitted


asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
print("done", flush=True)
