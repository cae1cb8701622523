"""A pool of runtimes in one process, and a job that kills it: `pool.py URL LOG MODE THREADS`.

Each start of a job is a line `JOB_ID ATTEMPT` in LOG. The job `poison` ends the process as running out of memory does.
MODE says when: `beside`, once three neighbours run, which hang; `alone`, once nothing else is left to do.
The process ends well when no job is pending. With one thread the runtime probes for liveness instead of holding leases.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import bandog

LEASE = 0.5
BESIDE = 3


class Pool:
    """What the threads share."""

    def __init__(self, url: str, log: Path, mode: str, threads: int) -> None:
        self.queue = bandog.connect(url)
        self.log = log
        self.mode = mode
        self.threads = threads
        self.neighbours = threading.Semaphore(0)

    def execute(self, job: bandog.ClaimedJob, _token: bandog.CancellationToken) -> None:
        # One write, so that lines of several threads do not mix; it survives the death of the process.
        with self.log.open("ab", buffering=0) as log:
            log.write(f"{job.job_id} {job.attempt}\n".encode())
        if job.job_id == "poison":
            self.die()
        if self.mode == "beside":
            self.neighbours.release()
            threading.Event().wait()

    def die(self) -> None:
        if self.mode == "beside":
            for _ in range(BESIDE):
                self.neighbours.acquire()
        else:
            while self.others_are_pending():
                time.sleep(0.01)
        os._exit(137)

    def others_are_pending(self) -> bool:
        pending = [*self.queue.jobs(state="queued"), *self.queue.jobs(state="running")]
        return any(record.job_id != "poison" for record in pending) and self.threads > 1

    def work(self) -> None:
        options = {"lease": LEASE} if self.threads > 1 else {"is_alive": lambda _record: False}
        with bandog.Watchdog(self.queue, self.execute, **options) as dog:
            while self.queue.has_pending_work():
                if dog.tick().kind == "idle":
                    time.sleep(0.01)


def main() -> None:
    url, log, mode, threads = sys.argv[1:]
    pool = Pool(url, Path(log), mode, int(threads))
    workers = [threading.Thread(target=pool.work) for _ in range(int(threads))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    pool.queue.close()


main()
