"""Everything at once in one process, with Python called back from everywhere: `boundary.py URL SECONDS` (C47).

Threads and event loops enqueue, claim, settle and cancel in one store. Wake callbacks, a log handler and ``__del__``
methods call back into the queues, a thread keeps the interpreter lock in long calls into C, and one job is kept under a
lease of a second, or of three on a server, which works on the same cores. Says `running`, and at the end the facts as
JSON.
"""

from __future__ import annotations

import asyncio
import collections
import faulthandler
import gc
import itertools
import json
import logging
import random
import sys
import threading
import time
from contextlib import suppress

import bandog

THREADS = 32
LOOPS = 4
LEASE = 300
TERMINAL = {"completed", "failed", "cancelled", "outcome_unknown"}

GARBAGE = 20
"""How many Finalized may wait for the garbage collector. It ends them all in the thread that set it off, and the
other threads make more meanwhile: without a bound each collection was longer than the one before (8 s for 40,000
objects), and the main thread, caught in one or waiting for a new thread that was, never came to end the run.
"""

over = threading.Event()
problems: collections.deque[str] = collections.deque(maxlen=50)
admitted: collections.Counter[str] = collections.Counter()
ended: collections.Counter[str] = collections.Counter()
recent: collections.deque[str] = collections.deque(["none"], maxlen=500)
spins: list[float] = [0.0]
# Taken and given back in single steps of C: the collector may end a Finalized in the middle of anything longer.
permits: collections.deque[None] = collections.deque([None] * GARBAGE)


class Progress:
    """How long nothing of one kind came to an end."""

    def __init__(self) -> None:
        self.count: collections.Counter[str] = collections.Counter()
        self.gap: dict[str, float] = {}
        self._last: dict[str, float] = {}

    def note(self, kind: str) -> None:
        for name in (kind, "any"):
            now = time.monotonic()
            before = self._last.get(name, now)
            self._last[name] = now
            if not over.is_set():
                self.gap[name] = max(self.gap.get(name, 0.0), now - before)
            self.count[name] += 1


progress = Progress()
# Reentrant: the garbage collector may end a Finalized, which counts too, in the middle of counting.
tally = threading.RLock()


def count(counter: collections.Counter[str], *job_ids: str) -> None:
    with tally:
        counter.update(job_ids)


class Finalized:
    """In a cycle, so that the garbage collector ends it: in the middle of any call, in any thread."""

    def __init__(self, queue: bandog.Queue) -> None:
        self.queue, self.me = queue, self

    def __del__(self) -> None:
        permits.append(None)
        with suppress(bandog.QueueClosed):
            if progress.count["del"] % 5 == 0:
                count(admitted, self.queue.enqueue("del").job_id)
            self.queue.has_pending_work()
            progress.note("del")


def leave_garbage(queue: bandog.Queue) -> None:
    with suppress(IndexError):
        permits.pop()
        Finalized(queue)


class AskingHandler(logging.Handler):
    """A log handler that asks the queue before it writes, as one that stores its lines there would."""

    def __init__(self, queue: bandog.Queue) -> None:
        super().__init__(logging.DEBUG)
        self.queue = queue

    def emit(self, _record: logging.LogRecord) -> None:
        with suppress(bandog.QueueClosed):
            self.queue.next_wake()
            count(admitted, self.queue.enqueue("log").job_id)
            progress.note("log")


def report_of(chance: random.Random) -> bandog.Report:
    return chance.choice(
        [
            bandog.Completed({"n": 1}),
            bandog.Completed(),
            bandog.Failed("why", retry=False),
            bandog.Failed("again", retry_in=0),
            bandog.Release(),
            bandog.Cancelled(),
            bandog.OutcomeUnknown("asked"),
        ]
    )


def settled(claims: list[bandog.ClaimedJob], settlements: list[bandog.Settlement]) -> None:
    for claim, settlement in zip(claims, settlements, strict=True):
        if settlement.kind in TERMINAL:
            count(ended, claim.job_id)
        elif settlement.kind in {"stale", "not_found"}:
            problems.append(f"{claim.job_id} is {settlement.kind}")


def thread(queue: bandog.Queue, seed: int) -> None:
    chance = random.Random(seed)
    while not over.is_set():
        leave_garbage(queue)
        action = chance.randrange(5)
        if action == 0:
            job_id = queue.enqueue({"seed": seed}, max_attempts=3).job_id
            count(admitted, job_id)
            recent.append(job_id)
        elif action == 1:
            count(admitted, *(answer.job_id for answer in queue.ingest_many([bandog.Job() for _ in range(3)])))
        elif action == 2:
            with suppress(bandog.JobNotFound):
                if (job_id := chance.choice(list(recent))) and queue.cancel(job_id).kind == "cancelled":
                    count(ended, job_id)
        else:
            claims = queue.claim(limit=3, lease=LEASE, queues="default")
            settled(claims, queue.settle_many([(claim, report_of(chance)) for claim in claims]))
        progress.note("thread")


async def coroutine(queue: bandog.AsyncQueue, blocking: bandog.Queue, seed: int) -> None:
    chance = random.Random(seed)
    while not over.is_set():
        leave_garbage(blocking)
        action = chance.randrange(4)
        if action == 0:
            answers = await asyncio.gather(*(queue.enqueue({"seed": seed}) for _ in range(4)))
            count(admitted, *(answer.job_id for answer in answers))
            recent.extend(answer.job_id for answer in answers)
        elif action == 1:
            with suppress(bandog.JobNotFound):
                if (job_id := chance.choice(list(recent))) and (await queue.cancel(job_id)).kind == "cancelled":
                    count(ended, job_id)
        else:
            claims = await queue.claim(limit=4, lease=LEASE, queues="default")
            settled(claims, await queue.settle_many([(claim, report_of(chance)) for claim in claims]))
        progress.note("loop")


async def loop(queue: bandog.AsyncQueue, blocking: bandog.Queue, seed: int) -> None:
    await asyncio.gather(*(coroutine(queue, blocking, seed + number) for number in range(4)))


def waking(queue: bandog.Queue) -> None:
    """Install callbacks that use the queue, and raise now and then, which is logged."""
    numbers = itertools.count()

    def wake(_due: object) -> None:
        if over.is_set():
            return
        number = next(numbers)
        with suppress(bandog.QueueClosed):
            if number % 4 == 0:
                count(admitted, queue.enqueue("wake").job_id)
            claims = queue.claim(limit=1, lease=LEASE, queues="default")
            settled(claims, queue.settle_many([(claim, bandog.Completed()) for claim in claims]))
        progress.note("wake")
        if number % 7 == 0:
            raise LookupError

    queue.wake.add(wake)


def spin() -> None:
    """Keep the interpreter lock in calls into C, which nobody can interrupt."""
    while not over.is_set():
        before = time.monotonic()
        sum(range(6_000_000))
        spins.append(time.monotonic() - before)
        time.sleep(0.2)


def guarded(body, *arguments: object) -> threading.Thread:
    def run() -> None:
        try:
            body(*arguments)
        except BaseException as error:  # noqa: BLE001 - a fact for the test
            problems.append(repr(error))

    started = threading.Thread(target=run)
    started.start()
    return started


def main() -> None:
    url, seconds = sys.argv[1], float(sys.argv[2])
    faulthandler.dump_traceback_later(seconds + 100, exit=True)
    gc.set_threshold(50)
    queue = bandog.connect(url, busy_timeout=60)
    other = asyncio.run(bandog.connect_async(url, busy_timeout=60))
    logger = logging.getLogger("bandog")
    logger.propagate = False
    logger.addHandler(AskingHandler(queue))
    facts: dict[str, object] = {}

    def keep(_job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> None:
        cancel.add_callback(lambda reason: (problems.append(f"the kept job: {reason}"), queue.has_pending_work()))
        over.wait()
        facts["aborted"] = cancel.reason

    queue.enqueue(job_id="kept", queue="kept")
    lease = 3 if url.startswith("postgres") else 1
    kept = guarded(lambda: facts.update(kept=bandog.Watchdog(queue, keep, queues="kept", lease=lease).tick().kind))
    waking(queue)
    other.wake.add(lambda _due: (progress.note("wake of the other"), queue.has_pending_work()))
    threads = [guarded(thread, queue, number) for number in range(THREADS)]
    threads += [guarded(lambda n=number: asyncio.run(loop(other, queue, 100 * n))) for number in range(1, LOOPS + 1)]
    spinner = guarded(spin)
    print("running", flush=True)
    time.sleep(seconds)
    over.set()
    before = time.monotonic()
    for each in (spinner, kept, *threads):
        each.join(60)
        if each.is_alive():
            problems.append("a thread does not end")
            faulthandler.dump_traceback()
    facts["stopping"] = time.monotonic() - before
    gc.set_threshold(700)
    asyncio.run(other.close())
    # Finalizers and wakes under way admit jobs after the threads have ended: drained is what stays empty for a while.
    quiet = 0
    drained_by = time.monotonic() + 30
    while quiet < 5 and time.monotonic() < drained_by:
        gc.collect()
        if claims := queue.claim(limit=1000, lease=LEASE):
            settled(claims, queue.settle_many([(claim, bandog.Completed()) for claim in claims]))
            quiet = 0
        else:
            quiet += 1
            time.sleep(0.1)
    queue.close()
    facts |= {
        "problems": list(problems),
        "count": progress.count,
        "gap": progress.gap,
        "spin": max(spins),
        "admitted": len(admitted),
        "admitted twice": [job for job, times in admitted.items() if times != 1],
        "ended": len(ended),
        "ended twice": [job for job, times in ended.items() if times != 1],
        "never ended": sorted(set(admitted) - set(ended))[:5],
    }
    print(json.dumps(facts), flush=True)


main()
