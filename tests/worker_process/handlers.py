"""Executors for workers in other processes. A payload says what its job does: `{"do": NAME, …}`.

Each start is a line in the file that `BANDOG_TEST_JOURNAL` names, and so is each end that is worth knowing.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import bandog

PATIENCE = 60.0


def note(job: bandog.ClaimedJob, what: str, **more: Any) -> None:
    """Write down what happens. One write, so that lines of several processes do not mix; it survives this one."""
    line = {"job": job.job_id, "attempt": job.attempt, "what": what, "pid": os.getpid(), "at": time.time(), **more}
    with open(os.environ["BANDOG_TEST_JOURNAL"], "ab", buffering=0) as journal:  # noqa: PTH123 - nothing shorter
        journal.write(json.dumps(line).encode() + b"\n")


def started(job_id: str) -> bool:
    """Whether a job was started, in whatever process."""
    with open(os.environ["BANDOG_TEST_JOURNAL"], encoding="utf-8") as journal:  # noqa: PTH123
        return any(f'"job": "{job_id}"' in line and '"what": "start"' in line for line in journal)


# What plain functions do.


def nothing(_job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    """The shortest job."""


def sleep(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    """Deaf to its token."""
    time.sleep(job.payload["seconds"])


def block(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    """On an event loop, this holds it up."""
    time.sleep(job.payload["seconds"])


def obey(job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> None:
    """Stop when told to."""
    cancel.wait(job.payload["seconds"])
    cancel.raise_if_aborted()


def spin(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    """Pure Python that never gives the interpreter lock up: see `at_work.py`."""
    deadline = time.monotonic() + job.payload["seconds"]
    while time.monotonic() < deadline:
        pass


def long_call(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    """One call into C that keeps the interpreter lock for at least so long."""
    sys.set_int_max_str_digits(0)
    digits, seconds = job.payload["digits"], job.payload["seconds"]
    while True:
        begin = time.monotonic()
        text = str(10**digits)
        taken = time.monotonic() - begin
        assert len(text) == digits + 1
        if taken >= seconds:
            return
        # It takes quadratic time in CPython.
        digits = int(digits * max(1.5, (1.2 * seconds / taken) ** 0.5))


def hold(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    """Keep a transaction open on a database of the job's own, and one for reading on the queue's."""
    with (
        closing(sqlite3.connect(job.payload["path"], isolation_level=None)) as writer,
        closing(sqlite3.connect(job.payload["queue"], isolation_level=None)) as reader,
    ):
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("CREATE TABLE work (number INTEGER)")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM bandog_job").fetchall()
        time.sleep(job.payload["seconds"])
        writer.execute("COMMIT")
        reader.execute("COMMIT")


def die(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    """As the system kills a process that takes too much memory.

    The first time once the jobs of `beside` run; after that once so many jobs are settled as there are others.
    """
    deadline = time.monotonic() + PATIENCE
    beside, others = job.payload.get("beside", ()), job.payload.get("others", 0)
    while not all(started(job_id) for job_id in beside) or (job.attempt > 1 and settled(job) < others):
        assert time.monotonic() < deadline, "the others do not come"
        time.sleep(0.02)
    os._exit(137)


def settled(job: bandog.ClaimedJob) -> int:
    """How many jobs of its file have an outcome."""
    with closing(sqlite3.connect(job.payload["queue"], timeout=PATIENCE)) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM bandog_outcome").fetchall()
    return count


def once(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    """The first attempt does not end by itself."""
    if job.attempt == 1:
        time.sleep(PATIENCE)


def hang(_job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    """In C, for ever; the interpreter lock is free."""
    threading.Lock().acquire()
    threading.Event().wait()


def fail(_job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    message = "as it was told to"
    raise LookupError(message)


def effect(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> bandog.Completed:
    """Something that is seen from outside."""
    time.sleep(job.payload.get("seconds", 0))
    note(job, "effect")
    return bandog.Completed({"attempt": job.attempt})


def execute(job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> Any:
    """The executor of threads and processes."""
    if job.payload["do"] != "nothing":
        note(job, "start")
    try:
        report = PLAIN[job.payload["do"]](job, cancel)
    finally:
        if job.payload["do"] != "nothing":
            note(job, "end", reason=cancel.reason)
    return report


PLAIN: dict[str, Callable[[bandog.ClaimedJob, bandog.CancellationToken], Any]] = {
    body.__name__: body for body in (nothing, sleep, block, obey, spin, long_call, hold, die, once, hang, fail, effect)
}


# What coroutines do.


async def sleep_async(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    """Go on after being cancelled."""
    deadline = time.monotonic() + job.payload["seconds"]
    while (left := deadline - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            note(job, "swallowed")


async def obey_async(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    await asyncio.sleep(job.payload["seconds"])


async def once_async(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    if job.attempt == 1:
        await asyncio.sleep(PATIENCE)


async def die_async(job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> None:
    await asyncio.to_thread(die, job, cancel)


async def hang_async(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            note(job, "swallowed")


async def effect_async(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> bandog.Completed:
    await asyncio.sleep(job.payload.get("seconds", 0))
    note(job, "effect")
    return bandog.Completed({"attempt": job.attempt})


async def thread_async(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    """Work in a thread of the loop's pool, which cannot be cancelled."""
    await asyncio.to_thread(time.sleep, job.payload["seconds"])


async def execute_async(job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> Any:
    """The executor of coroutines. What has no form of its own blocks the loop."""
    if job.payload["do"] != "nothing":
        note(job, "start")
    try:
        if (body := ASYNC.get(job.payload["do"])) is not None:
            return await body(job, cancel)
        return PLAIN[job.payload["do"]](job, cancel)
    finally:
        if job.payload["do"] != "nothing":
            note(job, "end", reason=cancel.reason)


ASYNC = {
    "sleep": sleep_async,
    "obey": obey_async,
    "once": once_async,
    "die": die_async,
    "hang": hang_async,
    "effect": effect_async,
    "thread": thread_async,
}
