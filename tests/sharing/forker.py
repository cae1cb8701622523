"""Forks while a queue is open and a claim is kept: `forker.py FILE FORKS PLACE`.

PLACE is `main` or `thread`, where the forks are made, or `busy`: in the main thread, while three others write without a
pause. A process of its own, because forking a test runner with all its threads would show more of those than of us.
Every child is waited for with a deadline; one that hangs is killed, and counted. Answers with the facts in JSON.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import bandog

PATIENCE = 30.0


def use_inherited(queue: bandog.Queue, _path: Path, _number: int) -> None:
    """Every call on the parent's queue is a typed error, and comes at once."""
    begin = time.monotonic()
    calls: list[Callable[[], object]] = [
        lambda: queue.enqueue(job_id="never"),
        lambda: queue.ingest_many([bandog.Job()]),
        queue.claim,
        lambda: queue.read("kept"),
        queue.recover,
        queue.has_pending_work,
        lambda: bandog.Watchdog(queue, lambda _job, _cancel: None).tick(),
    ]
    refusals: list[tuple[int, bool]] = []
    for call in calls:
        try:
            call()
        except bandog.ForkedQueue as error:
            refusals.append((error.opened_by, "connect()" in str(error)))
        else:
            message = "the parent's queue was used"
            raise AssertionError(message)
    assert refusals == [(os.getppid(), True)] * len(calls)
    queue.close()
    gc.collect()
    # A hang is told from an answer: the queue would wait for a lock for half a minute.
    assert time.monotonic() - begin < 5


def use_fresh(_queue: bandog.Queue, path: Path, number: int) -> None:
    """The child connects anew."""
    with bandog.connect(path, busy_timeout=PATIENCE) as fresh:
        assert fresh.enqueue(number, job_id=f"child-{number}").kind == "admitted"
        assert fresh.read(f"child-{number}").payload == number
        assert fresh.read("kept").state == "running"


def use_grandchild(queue: bandog.Queue, path: Path, number: int) -> None:
    """A child with a queue of its own forks again: both queues that are inherited are refused there."""
    with bandog.connect(path, busy_timeout=PATIENCE) as own:
        own.enqueue(number, job_id=f"before-{number}")

        def grandchild() -> None:
            for inherited in (queue, own):
                try:
                    inherited.enqueue(job_id="never")
                except bandog.ForkedQueue:
                    continue
                message = "an inherited queue was used"
                raise AssertionError(message)
            use_fresh(queue, path, number)

        assert wait_for(fork(grandchild)) == 0
        assert own.enqueue(number, job_id=f"after-{number}").kind == "admitted"


def just_leave(_queue: bandog.Queue, _path: Path, _number: int) -> None:
    """Nothing at all."""


KINDS = [just_leave, use_inherited, use_fresh, use_grandchild]


def fork(body: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        code = 3
        try:
            body()
            code = 0
        except BaseException:  # noqa: BLE001 - the parent reads the code
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return child


def wait_for(child: int) -> int:
    """Its exit code; one that hangs is killed and has -9."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -9


def fork_and_work(queue: bandog.Queue, path: Path, forks: int, facts: dict) -> None:
    for number in range(forks):
        kind = KINDS[number % len(KINDS)]
        child = fork(lambda kind=kind, number=number: kind(queue, path, number))
        # The parent works on while the child lives.
        queue.enqueue(number, job_id=f"parent-{number}", queue="parent")
        facts["acknowledged"].append(f"parent-{number}")
        (claim,) = queue.claim(queues="parent")
        queue.acknowledge(claim)
        code = wait_for(child)
        facts["codes"].append(code)
        if kind is use_fresh:
            facts["acknowledged"].append(f"child-{number}")
        if kind is use_grandchild:
            facts["acknowledged"] += [f"before-{number}", f"child-{number}", f"after-{number}"]


def write_until(over: threading.Event, queue: bandog.Queue, facts: dict, name: str) -> None:
    number = 0
    while not over.is_set():
        number += 1
        queue.enqueue(number, job_id=f"{name}-{number}", queue=name)
        facts["acknowledged"].append(f"{name}-{number}")
        for claim in queue.claim(queues=name):
            queue.acknowledge(claim)


def main() -> None:
    path, forks, place = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    over, started = threading.Event(), threading.Event()
    facts: dict = {"acknowledged": ["kept"], "codes": [], "aborted": None, "starts": 0}

    def execute(job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> None:
        facts["starts"] += 1
        assert job.attempt == 1
        started.set()
        assert over.wait(120)
        facts["aborted"] = cancel.reason

    with bandog.connect(path, busy_timeout=PATIENCE) as queue:
        queue.enqueue(job_id="kept", queue="kept")
        # The shortest lease that is allowed, so that renewals fall into the forks all the time.
        watchdog = bandog.Watchdog(queue, execute, queues="kept", lease=0.5)
        ticker = threading.Thread(target=lambda: facts.update(tick=watchdog.tick().kind))
        ticker.start()
        assert started.wait(PATIENCE)
        print("forking", flush=True)
        others = []
        if place == "busy":
            others = [threading.Thread(target=write_until, args=(over, queue, facts, f"busy{n}")) for n in range(3)]
            for other in others:
                other.start()
        if place == "thread":
            thread = threading.Thread(target=fork_and_work, args=(queue, path, forks, facts))
            thread.start()
            thread.join()
        else:
            fork_and_work(queue, path, forks, facts)
        over.set()
        for thread in [ticker, *others]:
            thread.join(PATIENCE)
            assert not thread.is_alive()
    print(json.dumps(facts), flush=True)


main()
