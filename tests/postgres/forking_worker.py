"""Forks while a worker runs on PostgreSQL: `forking_worker.py URL FORKS`. Says `forking`, and `done` at the end.

A process of its own, because forking a test runner with all its threads would show more of those than of us.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable

import bandog

PATIENCE = 30.0
LEASE = 0.5
"""The shortest that is allowed, so that renewals fall into the forks all the time."""


def just_leave(_queue: bandog.Queue, _url: str, _number: int) -> None:
    """Nothing at all."""


def use_inherited(queue: bandog.Queue, _url: str, _number: int) -> None:
    """Every call on what is the parent's is a typed error, and comes at once."""
    begun = time.monotonic()
    calls: list[Callable[[], object]] = [queue.enqueue, queue.claim, queue.stats]
    for call in calls:
        try:
            call()
        except bandog.ForkedQueue as error:
            assert error.opened_by == os.getppid()  # noqa: PT017 - no test
        else:
            raise AssertionError("the parent's queue was used")
    queue.close()
    assert time.monotonic() - begun < 1


def use_fresh(_queue: bandog.Queue, url: str, number: int) -> None:
    """The child connects anew, and has another one's job done by the parent."""
    with bandog.connect(url) as fresh:
        assert fresh.enqueue(job_id=f"child-{number}").kind == "admitted"
        assert fresh.read("kept").state == "running"


KINDS = [just_leave, use_inherited, use_fresh]


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


def main() -> None:
    url, forks = sys.argv[1], int(sys.argv[2])
    over, started = threading.Event(), threading.Event()

    def execute(job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> bandog.Completed | None:
        if job.job_id != "kept":
            return None
        started.set()
        assert over.wait(120)
        assert cancel.reason is None
        return bandog.Completed("kept")

    with bandog.connect(url) as queue:
        queue.enqueue(job_id="kept")
        worker = bandog.Worker(queue, execute, concurrency=3, lease=LEASE, poll=60.0)
        worker.start()
        assert started.wait(PATIENCE)
        print("forking", flush=True)
        for number in range(forks):
            kind = KINDS[number % len(KINDS)]
            child = fork(lambda kind=kind, number=number: kind(queue, url, number))
            queue.enqueue(job_id=f"parent-{number}")
            assert wait_for(child) == 0
        deadline = time.monotonic() + PATIENCE
        while worker.stats().completed < forks + forks // 3:
            assert time.monotonic() < deadline, worker.stats()
            time.sleep(0.005)
        over.set()
        worker.stop(PATIENCE)
    print("done", flush=True)


if __name__ == "__main__":
    main()
