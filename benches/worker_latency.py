"""How long from ``ingest`` to the executor's start, with an idle worker: ``python benches/worker_latency.py``.

The worker runs in this process or in another one, in threads or as coroutines, each on a file of its own. Beside them
stands what the machine allows: the raw SQL loop inserts a job, tells a thread through a queue or a process through a
pipe, and that claims it; both commits are on the disk when the job starts, as the worker's are. All sides are there all
the time and take turns, so that each is idle for the pauses of the others. Times are of one clock for all processes, in
two forms: since the call of ``ingest`` began, its commit included, and since it returned (below zero: the executor was
faster).
"""

from __future__ import annotations

import argparse
import os
import queue as queues
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measuring import PAYLOAD, describe, percentile, warn_of_debug_build
from raw_sqlite import RawLoop

import bandog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NUMBER = struct.Struct("q")
PATIENCE = 30.0
"""Seconds after which a job that has not started counts as lost."""


class Side:
    """One way from a job's admission to its start."""

    def __init__(self, name: str, ingest: Callable[[], object], started: Callable[[], int]) -> None:
        self.name = name
        self.ingest = ingest
        self.started = started
        self.since_call: list[float] = []
        self.since_return: list[float] = []

    def sample(self, *, keep: bool) -> None:
        begun = time.monotonic_ns()
        self.ingest()
        returned = time.monotonic_ns()
        started = self.started()
        if keep:
            self.since_call.append((started - begun) / 1e6)
            self.since_return.append((started - returned) / 1e6)


def executor(tell: Callable[[int], object], is_async: bool) -> Any:
    """An executor that tells when it was started."""

    def start(job: Any, _cancel: Any) -> None:
        tell(time.monotonic_ns())
        _ = job.payload

    async def start_async(job: Any, cancel: Any) -> None:
        start(job, cancel)

    return start_async if is_async else start


def claims_of(path: Path, told: Callable[[], object]) -> Iterator[int]:
    """When the raw loop has claimed a job, each time that it is told of one."""
    loop = RawLoop(path, "FULL", create=False)
    while told():
        claims = loop.claim(1)
        yield time.monotonic_ns()
        loop.settle(claims)
    loop.close()


# In this process


def worker_here(stack: ExitStack, folder: Path, *, is_async: bool) -> Side:
    kind = "coroutines" if is_async else "threads"
    queue = stack.enter_context(bandog.connect(folder / f"{kind}-here.sqlite"))
    starts: queues.SimpleQueue[int] = queues.SimpleQueue()
    stack.enter_context(bandog.Worker(queue, executor(starts.put, is_async)))
    return Side(f"worker, {kind}, same process", partial(queue.enqueue, PAYLOAD), partial(starts.get, timeout=PATIENCE))


def raw_here(stack: ExitStack, folder: Path) -> Side:
    path = folder / "raw-here.sqlite"
    loop = RawLoop(path, "FULL")
    stack.callback(loop.close)
    jobs: queues.SimpleQueue[bool] = queues.SimpleQueue()
    starts: queues.SimpleQueue[int] = queues.SimpleQueue()

    def body() -> None:
        for moment in claims_of(path, jobs.get):
            starts.put(moment)

    threading.Thread(target=body, daemon=True).start()
    stack.callback(jobs.put, False)

    def ingest() -> None:
        loop.ingest([PAYLOAD])
        jobs.put(True)

    return Side("raw loop and a queue, same process", ingest, partial(starts.get, timeout=PATIENCE))


# In another one


def child(stack: ExitStack, kind: str, path: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(  # noqa: S603 - this interpreter, with our own script
        [sys.executable, __file__, "--child", kind, "--file", str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )

    def end() -> None:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)

    stack.callback(end)
    return process


def told_by(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    message = process.stdout.read(NUMBER.size)
    assert len(message) == NUMBER.size, "the worker's process ended"
    return NUMBER.unpack(message)[0]


def worker_there(stack: ExitStack, folder: Path, *, is_async: bool) -> Side:
    kind = "coroutines" if is_async else "threads"
    path = folder / f"{kind}-there.sqlite"
    queue = stack.enter_context(bandog.connect(path))
    process = child(stack, kind, path)
    return Side(f"worker, {kind}, other process", partial(queue.enqueue, PAYLOAD), partial(told_by, process))


def raw_there(stack: ExitStack, folder: Path) -> Side:
    path = folder / "raw-there.sqlite"
    loop = RawLoop(path, "FULL")
    stack.callback(loop.close)
    process = child(stack, "raw", path)
    assert process.stdin is not None
    pipe = process.stdin.fileno()

    def ingest() -> None:
        loop.ingest([PAYLOAD])
        os.write(pipe, b"!")

    return Side("raw loop and a pipe, other process", ingest, partial(told_by, process))


def be_child(kind: str, file: str) -> None:
    def tell(moment: int) -> None:
        os.write(1, NUMBER.pack(moment))

    if kind == "raw":
        for moment in claims_of(Path(file), lambda: os.read(0, 1)):
            tell(moment)
        return
    with bandog.connect(file) as queue:
        bandog.Worker(queue, executor(tell, kind == "coroutines")).run()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1000, help="of each side")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between two samples, of whatever side")
    parser.add_argument("--quick", action="store_true", help="few samples: whether it runs, no figures")
    parser.add_argument("--folder", default=None, help="where the files go; default the temporary folder")
    parser.add_argument("--child", help=argparse.SUPPRESS)  # of this script's own processes
    parser.add_argument("--file", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        be_child(options.child, options.file)
        return 0
    samples = 10 if options.quick else options.samples
    warn_of_debug_build()
    print(describe(options.folder))
    print(f"synchronous=FULL, {samples} samples a side, pauses of about {options.pause * 1000:g} ms, milliseconds\n")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder)))
        sides = [
            raw_here(stack, folder),
            worker_here(stack, folder, is_async=False),
            worker_here(stack, folder, is_async=True),
            raw_there(stack, folder),
            worker_there(stack, folder, is_async=False),
            worker_there(stack, folder, is_async=True),
        ]
        for number in range(-3, samples):  # the first ones wait for children to start
            for side in sides:
                side.sample(keep=number >= 0)
                time.sleep(options.pause * random.uniform(0.5, 1.5))  # at no fixed distance from anybody's timer
    print("| from `ingest` to | since the call: p50 | p99 | since its return: p50 | p99 |")
    print("| --- | --- | --- | --- | --- |")
    for side in sides:
        figures = [
            percentile(values, percent) for values in (side.since_call, side.since_return) for percent in (50, 99)
        ]
        print(f"| {side.name} | {' | '.join(f'{figure:.3f}' for figure in figures)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
