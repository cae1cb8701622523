"""Writes without a pause, with a forked child that outlives it: `orphan.py FILE`. Prints the child's process id."""

from __future__ import annotations

import os
import sys
import threading
import time

import bandog

LIFETIME = 60.0


def main() -> None:
    queue = bandog.connect(sys.argv[1])

    def write() -> None:
        batch = 0
        while True:
            batch += 1
            queue.ingest_many([bandog.Job(job_id=f"{os.getpid()}-{batch}-{number}") for number in range(300)])

    threading.Thread(target=write, daemon=True).start()
    while not queue.has_pending_work():
        time.sleep(0.001)
    child = os.fork()
    if child == 0:
        # The pipes belong to the parent: the test takes their end for the parent's.
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        time.sleep(LIFETIME)
        os._exit(0)
    print(child, flush=True)
    time.sleep(LIFETIME)


main()
