"""What a rival's script has in common with the others: its verbs, and how it talks to the bench.

Imported in the rivals' own environment: it needs nothing but Python. ``python x_rival.py URL VERB JSON`` with

- ``prepare``: makes the tables;
- ``preload``: adds ``jobs`` in bulk; answers the seconds;
- ``drain``: says that it is ready; after the line ``go``, starts a worker and prints how many jobs it has executed,
  whenever that has changed; answers the line ``pending`` with the number of jobs that are not yet recorded as done;
- ``enqueue``: ``jobs`` one by one, ``at_once`` of them at a time, or ``bulk`` of them per call; answers the seconds;
- ``latency``: enqueues a job, waits for its start and pauses, ``samples`` times; with ``other``, the worker is another
  process. Answers milliseconds since the call of enqueue and since its return;
- ``work``: the worker of that other process. It writes the time of each start, eight bytes each.

Times of all processes are of one monotonic clock.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import struct
import sys
import threading
import time
from typing import Any, Protocol

PAYLOAD = {"to": "ada@example.org", "n": 1}
SLEEP = 0.001
PATIENCE = 30.0
NUMBER = struct.Struct("q")
WARM_UP = 3


class Rival(Protocol):
    """What each script implements. The worker calls ``started`` when a job starts."""

    def __init__(self, url: str, options: dict[str, Any]) -> None: ...

    async def open(self) -> None: ...

    async def prepare(self) -> None: ...

    async def enqueue(self) -> None: ...

    async def enqueue_many(self, number: int) -> None: ...

    async def start_worker(self, execute: Any) -> None: ...

    async def pending(self) -> int: ...


class Counting:
    """The job of a drain: it counts, or counts and sleeps."""

    def __init__(self, job: str) -> None:
        self.done = 0
        self.execute = self.sleep if job == "sleep" else self.nothing

    async def nothing(self) -> None:
        self.done += 1

    async def sleep(self) -> None:
        await asyncio.sleep(SLEEP)
        self.done += 1


def say(value: Any) -> None:
    print(json.dumps(value), flush=True)


async def prepare(rival: Rival, _options: dict[str, Any]) -> None:
    await rival.open()
    await rival.prepare()
    say({})


async def preload(rival: Rival, options: dict[str, Any]) -> None:
    await rival.open()
    start = time.perf_counter()
    await add(rival, options["jobs"], options.get("bulk", 1000))
    say({"seconds": time.perf_counter() - start})


async def add(rival: Rival, jobs: int, bulk: int) -> None:
    for start in range(0, jobs, bulk):
        await rival.enqueue_many(min(bulk, jobs - start))


async def enqueue(rival: Rival, options: dict[str, Any]) -> None:
    await rival.open()
    jobs, at_once = options["jobs"], options.get("at_once", 1)

    async def one_by_one(number: int) -> None:
        for _ in range(number):
            await rival.enqueue()

    await asyncio.gather(*(one_by_one(1) for _ in range(at_once)))  # connections are there, statements prepared
    start = time.perf_counter()
    if "bulk" in options:
        await add(rival, jobs, options["bulk"])
    else:
        await asyncio.gather(*(one_by_one(jobs // at_once) for _ in range(at_once)))
    say({"seconds": time.perf_counter() - start})


async def drain(rival: Rival, options: dict[str, Any]) -> None:
    counting = Counting(options["job"])
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str] = asyncio.Queue()

    def listen() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line.strip())
        loop.call_soon_threadsafe(lines.put_nowait, "end")

    threading.Thread(target=listen, daemon=True).start()
    await rival.open()
    say({"ready": 1})
    assert await lines.get() == "go"
    await rival.start_worker(counting.execute)
    told = 0
    while True:
        try:
            line = await asyncio.wait_for(lines.get(), 0.01)
        except TimeoutError:
            line = ""
        if line == "end":
            os._exit(0)  # the jobs are done, and what a rival's shutdown takes is not asked
        if line == "pending":
            say({"pending": await rival.pending()})
        elif counting.done != told:
            told = counting.done
            say({"done": told})


async def latency(rival: Rival, options: dict[str, Any]) -> None:
    await rival.open()
    starts: asyncio.Queue[int] = asyncio.Queue()
    if options["other"]:
        arguments = [sys.executable, *sys.argv[:2], "work", json.dumps(options)]
        child = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
        assert child.stdout is not None
        stream = child.stdout

        async def started() -> int:
            return NUMBER.unpack(await stream.readexactly(NUMBER.size))[0]
    else:

        async def execute() -> None:
            starts.put_nowait(time.monotonic_ns())

        await rival.start_worker(execute)
        started = starts.get
    since_call: list[float] = []
    since_return: list[float] = []
    for number in range(-WARM_UP, options["samples"]):
        begun = time.monotonic_ns()
        await rival.enqueue()
        returned = time.monotonic_ns()
        moment = await asyncio.wait_for(started(), PATIENCE)
        if number >= 0:
            since_call.append((moment - begun) / 1e6)
            since_return.append((moment - returned) / 1e6)
        await asyncio.sleep(options["pause"] * random.uniform(0.5, 1.5))
    say({"since_call": since_call, "since_return": since_return})
    if options["other"]:
        child.kill()
        await child.wait()
    os._exit(0)


async def work(rival: Rival, _options: dict[str, Any]) -> None:
    async def execute() -> None:
        os.write(1, NUMBER.pack(time.monotonic_ns()))

    await rival.open()
    await rival.start_worker(execute)
    await asyncio.Event().wait()


VERBS = {"prepare": prepare, "preload": preload, "drain": drain, "enqueue": enqueue, "latency": latency, "work": work}


def main(rival: type[Rival], run: Any = asyncio.run) -> None:
    url, verb, given = sys.argv[1:]
    options = json.loads(given)
    run(VERBS[verb](rival(url, options), options))
