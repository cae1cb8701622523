"""Ends the interpreter in a state that a program may leave it in: `exiting.py FILE STATE`. Says `ready` at the end."""

from __future__ import annotations

import asyncio
import atexit
import sqlite3
import sys
import threading
import time
from pathlib import Path

import bandog

PATIENCE = 30.0
KEPT: list[object] = []
"""What lives until the interpreter clears its modules."""


def ready() -> None:
    print("ready", flush=True)


def lock(path: Path) -> sqlite3.Connection:
    """Hold the write lock until the process ends, or the connection is closed."""
    blocker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN IMMEDIATE")
    KEPT.append(blocker)
    return blocker


async def nothing(_job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    """An executor with nothing to do."""


async def opened(path: Path, **options: object) -> bandog.AsyncQueue:
    queue = await bandog.connect_async(path, **options)
    await queue.enqueue(job_id="a")
    return queue


async def left_open(path: Path) -> None:
    await opened(path)


async def left_open_in_a_global(path: Path) -> None:
    KEPT.append(await opened(path))


async def under_way(path: Path) -> None:
    """Calls wait for the lock when the program ends; their tasks are cancelled by ``asyncio.run``."""
    queue = await opened(path, busy_timeout=PATIENCE)
    KEPT.append(queue)
    blocker = lock(path)
    KEPT.extend(asyncio.create_task(queue.enqueue(job_id=f"late-{number}")) for number in range(5))
    KEPT.append(asyncio.create_task(queue.claim()))
    await asyncio.sleep(0.05)
    # Another connection keeps the lock for a while yet.
    threading.Timer(1.0, blocker.close).start()


async def under_way_and_never_answered(path: Path) -> None:
    """As before, and the lock is never let go of."""
    queue = await opened(path, busy_timeout=2)
    KEPT.append(queue)
    lock(path)
    KEPT.extend(asyncio.create_task(queue.enqueue(job_id=f"late-{number}")) for number in range(5))
    await asyncio.sleep(0.05)


def loop_closed(path: Path) -> None:
    """The answers come when their loop is closed, while the program goes on."""

    async def leave() -> bandog.AsyncQueue:
        queue = await opened(path, busy_timeout=PATIENCE)
        lock(path)
        KEPT.extend(asyncio.create_task(queue.enqueue(job_id=f"late-{number}")) for number in range(5))
        KEPT.append(asyncio.create_task(queue.claim()))
        await asyncio.sleep(0.05)
        return queue

    queue = asyncio.run(leave())
    for kept in KEPT:
        if isinstance(kept, sqlite3.Connection):
            kept.close()
    assert asyncio.run(queue.enqueue(job_id="after")).kind == "admitted"
    assert asyncio.run(queue.read("late-4")).state == "queued"


def daemon_loop(path: Path) -> None:
    """A loop in a daemon thread goes on with its calls while the interpreter ends."""
    busy = threading.Event()

    async def forever() -> None:
        queue = await bandog.connect_async(path, synchronous="normal")
        KEPT.append(queue)
        while True:
            await asyncio.gather(*(queue.enqueue() for _ in range(10)), queue.claim(limit=5))
            busy.set()

    threading.Thread(target=lambda: asyncio.run(forever()), daemon=True).start()
    assert busy.wait(PATIENCE)


def daemon_threads(path: Path) -> None:
    """Daemon threads wait in calls of the synchronous face while the interpreter ends."""
    queue = bandog.connect(path, synchronous="normal")
    KEPT.append(queue)
    busy = threading.Event()

    def forever() -> None:
        while True:
            queue.enqueue()
            queue.claim(limit=2)
            queue.has_pending_work()
            busy.set()

    for _ in range(4):
        threading.Thread(target=forever, daemon=True).start()
    assert busy.wait(PATIENCE)


def at_exit(path: Path) -> None:
    """Handlers use the queue and close it."""
    queue = asyncio.run(opened(path))

    async def last() -> None:
        await queue.enqueue(job_id="last")
        await queue.close()

    atexit.register(lambda: asyncio.run(last()))


def at_exit_sync(path: Path) -> None:
    queue = bandog.connect(path)
    atexit.register(queue.close)
    atexit.register(queue.enqueue, job_id="last")


def thread_that_ends_later(path: Path) -> None:
    """A thread that the interpreter waits for still uses the queue."""

    def later() -> None:
        time.sleep(0.1)
        asyncio.run(left_open(path))

    threading.Thread(target=later).start()


async def waking(path: Path) -> None:
    """Wake callbacks are under way while the interpreter ends, and take and leave it all the time."""
    called = threading.Event()

    def wake(_due: object) -> None:
        called.set()
        for _ in range(200):
            time.sleep(0.0005)

    for _ in range(4):
        queue = await bandog.connect_async(path, synchronous="normal", wake=wake)
        KEPT.append(queue)
        await queue.ingest_many([bandog.Job() for _ in range(100)])
        KEPT.extend(asyncio.create_task(queue.enqueue()) for _ in range(20))
    await asyncio.to_thread(called.wait, PATIENCE)


async def ticking(path: Path) -> None:
    """A runtime's executor is under way, and its claim kept."""
    queue = await opened(path)
    started = asyncio.Event()

    async def execute(_job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> None:
        cancel.add_callback(KEPT.append)
        started.set()
        await asyncio.sleep(60)

    KEPT.extend((queue, asyncio.create_task(bandog.AsyncWatchdog(queue, execute).tick())))
    await started.wait()


def timer(path: Path) -> None:
    """A timer was started and never stopped."""
    queue = bandog.connect(path, synchronous="normal")
    ran = threading.Event()
    started = bandog.Timer(queue, bandog.Watchdog(queue, lambda _job, _cancel: ran.set()), poll=0.01)
    started.start()
    KEPT.extend((queue, started))
    queue.enqueue()
    assert ran.wait(PATIENCE)


async def async_timer(path: Path) -> None:
    queue = await opened(path)
    started = bandog.AsyncTimer(queue, bandog.AsyncWatchdog(queue, nothing), poll=0.01)
    started.start()
    KEPT.extend((queue, started))
    while (await queue.read("a")).state != "settled":  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.001)


async def exits_with_three(path: Path) -> None:
    KEPT.append(await opened(path))
    ready()
    sys.exit(3)


async def raises(path: Path) -> None:
    KEPT.append(await opened(path))
    ready()
    raise LookupError


def main() -> None:
    path, state = Path(sys.argv[1]), sys.argv[2]
    body = globals()[state]
    if asyncio.iscoroutinefunction(body):
        asyncio.run(body(path))
    else:
        body(path)
    ready()


main()
