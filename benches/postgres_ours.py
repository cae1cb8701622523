"""bandog and the raw loop as sides of the PostgreSQL benches, with the verbs of ``rivals/serving.py``.

``python postgres_ours.py URL VERB JSON``, where the option ``side`` is ``bandog`` or ``raw``. A drain ends by itself:
the worker runs as a burst, and the raw loop until it claims nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue as queues
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import raw_postgres
from measuring import PAYLOAD
from raw_postgres import RawConnection
from rivals.serving import NUMBER, PATIENCE, SLEEP, WARM_UP, say
from worker_latency import executor

import bandog

if TYPE_CHECKING:
    from collections.abc import Callable

Options = dict[str, Any]


def nothing(job: Any, _cancel: Any) -> None:
    _ = job.payload


def sleep(job: Any, _cancel: Any) -> None:
    _ = job.payload
    time.sleep(SLEEP)


async def nothing_async(job: Any, _cancel: Any) -> None:
    _ = job.payload


async def sleep_async(job: Any, _cancel: Any) -> None:
    _ = job.payload
    await asyncio.sleep(SLEEP)


JOBS = {
    ("nothing", False): nothing,
    ("sleep", False): sleep,
    ("nothing", True): nothing_async,
    ("sleep", True): sleep_async,
}


def prepare(url: str, _options: Options) -> None:
    bandog.migrate(url)
    say({})


def preload(url: str, options: Options) -> None:
    with bandog.connect(url) as queue:
        say({"seconds": add(queue, options["jobs"], options.get("bulk", 1000))})


def add(queue: bandog.Queue, jobs: int, bulk: int) -> float:
    start = time.perf_counter()
    for first in range(0, jobs, bulk):
        queue.ingest_many(bandog.Job(payload=PAYLOAD) for _ in range(min(bulk, jobs - first)))
    return time.perf_counter() - start


# Drain


def drain(url: str, options: Options) -> None:
    if options["side"] == "raw":
        drain_raw(url, options)
        return
    execute: Any = JOBS[options["job"], options["is_async"]]
    with bandog.connect(url) as queue:
        worker = bandog.Worker(queue, execute, queues="default", **options["worker"])
        wait_for("go")
        worker.run(burst=True)
        answer(worker.stats().completed)


def drain_raw(url: str, options: Options) -> None:
    batch = options["batch"]
    with ThreadPoolExecutor(batch) as pool:
        if options["job"] == "sleep" and not options["is_async"]:
            list(pool.map(time.sleep, [SLEEP] * batch))  # its threads are there, as the worker's
        execute = raw_execute(options, pool)
        wait_for("go")
        answer(raw_postgres.SHAPES[options["shape"]](url, batch, execute))


def raw_execute(options: Options, pool: ThreadPoolExecutor) -> Callable[[list[tuple[Any, ...]]], object]:
    """The same jobs on rows, as many at once as the worker has them."""
    loops = threading.local()  # a thread of the raw loop has an event loop of its own
    execute: Any = JOBS[options["job"], options["is_async"]]

    async def gathered(rows: list[tuple[Any, ...]]) -> None:
        await asyncio.gather(*(execute(Claimed(row), None) for row in rows))

    def in_loop(rows: list[tuple[Any, ...]]) -> None:
        if not hasattr(loops, "runner"):
            loops.runner = asyncio.Runner()
        loops.runner.run(gathered(rows))

    def one_by_one(rows: list[tuple[Any, ...]]) -> None:
        for row in rows:
            execute(Claimed(row), None)

    if options["is_async"]:
        return in_loop
    if options["job"] == "sleep":
        return lambda rows: list(pool.map(lambda row: execute(Claimed(row), None), rows))
    return one_by_one


class Claimed:
    """What the raw loop hands to an executor: its payload is parsed when it is read, as bandog's."""

    __slots__ = ("row",)

    def __init__(self, row: tuple[Any, ...]) -> None:
        self.row = row

    @property
    def payload(self) -> Any:
        return json.loads(self.row[3])


def wait_for(line: str) -> None:
    say({"ready": 1})
    assert sys.stdin.readline().strip() == line


def answer(done: int) -> None:
    """How many jobs this process has done; nothing is left to be recorded."""
    say({"done": done})
    for _ in sys.stdin:
        say({"pending": 0})


# Enqueue


def enqueue(url: str, options: Options) -> None:
    jobs, at_once = options["jobs"], options.get("at_once", 1)
    with ExitStack() as stack:
        one: list[Callable[[], object]]
        if options["side"] == "raw":
            connections = [stack.enter_context(closing(RawConnection(url))) for _ in range(at_once)]
            one = [lambda raw=raw: raw.ingest(1) for raw in connections]
            bulk = connections[0].ingest
        else:
            queue = stack.enter_context(bandog.connect(url))
            one = [lambda: queue.enqueue(PAYLOAD)] * at_once
            bulk = lambda size: add(queue, size, size)  # noqa: E731 - the other one is a method
        pool = stack.enter_context(ThreadPoolExecutor(at_once))

        def several(call: Callable[[], object], number: int) -> None:
            for _ in range(number):
                call()

        list(pool.map(several, one, [1] * at_once))
        start = time.perf_counter()
        if "bulk" in options:
            for first in range(0, jobs, options["bulk"]):
                bulk(min(options["bulk"], jobs - first))
        else:
            list(pool.map(several, one, [jobs // at_once] * at_once))
        say({"seconds": time.perf_counter() - start})


# Latency


def latency(url: str, options: Options) -> None:
    with ExitStack() as stack:
        starts: queues.SimpleQueue[int] = queues.SimpleQueue()
        if options["other"]:
            command = [sys.executable, __file__, url, "work", json.dumps(options)]
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - ourselves
            stack.callback(child.wait, PATIENCE)
            stack.callback(child.terminate)
            threading.Thread(target=relay, args=(child, starts), daemon=True).start()
        if options["side"] == "raw":
            ingest = raw_latency(url, options, stack, starts)
        else:
            queue = stack.enter_context(bandog.connect(url))
            if not options["other"]:
                stack.enter_context(bandog.Worker(queue, executor(starts.put, options["is_async"]), queues="default"))
            ingest = lambda: queue.enqueue(PAYLOAD)  # noqa: E731
        figures: dict[str, list[float]] = {"since_call": [], "since_return": []}
        for number in range(-WARM_UP, options["samples"]):
            begun = time.monotonic_ns()
            ingest()
            returned = time.monotonic_ns()
            moment = starts.get(timeout=PATIENCE)
            if number >= 0:
                figures["since_call"].append((moment - begun) / 1e6)
                figures["since_return"].append((moment - returned) / 1e6)
            time.sleep(options["pause"] * random.uniform(0.5, 1.5))
    say(figures)


def relay(child: subprocess.Popen[bytes], starts: queues.SimpleQueue[int]) -> None:
    assert child.stdout is not None
    while len(message := child.stdout.read(NUMBER.size)) == NUMBER.size:
        starts.put(NUMBER.unpack(message)[0])


def raw_latency(url: str, options: Options, stack: ExitStack, starts: queues.SimpleQueue[int]) -> Callable[[], object]:
    """The raw loop is told of a job through a queue, than which nothing is faster, and in another process by NOTIFY."""
    raw = stack.enter_context(closing(RawConnection(url)))
    if options["other"]:

        def ingest() -> None:
            with raw.connection.pipeline():
                raw.ingest(1)
                raw.connection.execute("NOTIFY bench")

        return ingest
    told: queues.SimpleQueue[bool] = queues.SimpleQueue()

    def body() -> None:
        with closing(RawConnection(url)) as claiming:
            while told.get():
                batch = claiming.claim(1)
                starts.put(time.monotonic_ns())
                claiming.settle(batch)

    threading.Thread(target=body, daemon=True).start()
    stack.callback(told.put, False)

    def ingest_and_tell() -> None:
        raw.ingest(1)
        told.put(True)

    return ingest_and_tell


def work(url: str, options: Options) -> None:
    def tell(moment: int) -> None:
        os.write(1, NUMBER.pack(moment))

    if options["side"] == "bandog":
        with bandog.connect(url) as queue:
            bandog.Worker(queue, executor(tell, options["is_async"]), queues="default").run()
        return
    with closing(RawConnection(url)) as raw, closing(RawConnection(url)) as listening:
        listening.connection.execute("LISTEN bench")
        while True:
            batch = raw.claim(1)
            if batch[1]:
                tell(time.monotonic_ns())
                raw.settle(batch)
            else:
                for _ in listening.connection.notifies(timeout=1.0, stop_after=1):
                    pass


VERBS = {"prepare": prepare, "preload": preload, "drain": drain, "enqueue": enqueue, "latency": latency, "work": work}

if __name__ == "__main__":
    VERBS[sys.argv[2]](sys.argv[1], json.loads(sys.argv[3]))
