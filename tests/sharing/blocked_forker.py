"""Forks while another thread waits for the write lock: `blocked_forker.py FILE`. The fork must not wait with it."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from contextlib import closing

import bandog

FORKS = 30


def use(queue: bandog.Queue, path: str) -> bool:
    """In the child: the inherited queue is refused, a fresh one reads, and is told that the file is locked."""
    try:
        queue.enqueue()
    except bandog.ForkedQueue:
        pass
    else:
        return False
    with bandog.connect(path, busy_timeout=0.02) as fresh:
        assert fresh.read("early").state == "queued"
        try:
            fresh.enqueue()
        except bandog.StoreBusy:
            return True
    return False


def main() -> None:
    path = sys.argv[1]
    # Longer than the test has patience: a fork or a child that waited for the lock would be noticed.
    with bandog.connect(path, busy_timeout=3600) as queue:
        queue.enqueue(job_id="early")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            kinds: list[str] = []
            threads = [
                threading.Thread(target=lambda number=number: kinds.append(queue.enqueue(job_id=f"late-{number}").kind))
                for number in range(4)
            ]
            for thread in threads:
                thread.start()
            time.sleep(0.05)
            for _ in range(FORKS):
                child = os.fork()
                if child == 0:
                    code = 3
                    try:
                        code = 0 if use(queue, path) else 4
                    finally:
                        os._exit(code)
                _, status = os.waitpid(child, 0)
                assert os.waitstatus_to_exitcode(status) == 0, status
            assert kinds == []
            other.execute("COMMIT")
            for thread in threads:
                thread.join(60)
            assert kinds == ["admitted"] * 4
    print("done", flush=True)


main()
