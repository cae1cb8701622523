"""Forks children that leave the interpreter in the usual ways, finalisation included: `leaver.py FILE HOW`."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from pathlib import Path

import bandog

PATIENCE = 30.0


def admit(path: Path, name: str) -> str:
    with bandog.connect(path, busy_timeout=PATIENCE) as fresh:
        return fresh.enqueue(job_id=name).kind


def refused(queue: bandog.Queue) -> bool:
    try:
        queue.enqueue(job_id="never")
    except bandog.ForkedQueue:
        return True
    return False


def main() -> None:
    path, how = Path(sys.argv[1]), sys.argv[2]
    queue = bandog.connect(path, busy_timeout=PATIENCE)
    queue.enqueue(job_id="kept", queue="kept")
    started, over = threading.Event(), threading.Event()

    def execute(_job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> None:
        started.set()
        assert over.wait(120)
        assert not cancel.aborted

    watchdog = bandog.Watchdog(queue, execute, queues="kept", lease=0.5)
    kinds: list[str] = []
    ticker = threading.Thread(target=lambda: kinds.append(watchdog.tick().kind), daemon=True)
    ticker.start()
    assert started.wait(PATIENCE)

    if how == "processes":
        context = multiprocessing.get_context("fork")
        children = [context.Process(target=admit, args=(path, f"process-{number}")) for number in range(10)]
        for child in children:
            child.start()
        for child in children:
            child.join(PATIENCE)
            assert child.exitcode == 0, child
        with context.Pool(3) as pool:
            names = [(path, f"pool-{number}") for number in range(10)]
            assert pool.starmap_async(admit, names).get(PATIENCE) == ["admitted"] * 10
        queue.enqueue(job_id="parent")
    else:
        for number in range(10):
            child = os.fork()
            if child == 0:
                # From here on the child runs to the end of the script and through finalisation, holding the inherited
                # queue in a variable (`exit`), having closed it (`close`), or having dropped it (`drop`).
                assert refused(queue)
                if how == "close":
                    queue.close()
                elif how == "drop":
                    del queue, watchdog
                elif how == "fresh":
                    assert admit(path, f"fresh-{number}") == "admitted"
                    still_open = bandog.connect(path)
                    assert still_open.read("kept").state == "running"
                sys.exit(0)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            queue.enqueue(number, job_id=f"parent-{number}")
    over.set()
    ticker.join(PATIENCE)
    assert kinds == ["settled"], kinds
    assert queue.read("kept").attempts == 1
    print("done", flush=True)


main()
