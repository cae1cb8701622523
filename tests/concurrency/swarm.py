"""Eight threads on one queue: `swarm.py URL JOURNAL NAME JOBS`.

They enqueue JOBS jobs between them, and claim, renew and settle whatever anybody enqueued, until nothing is left. Each
job that is run is written to the journal, one `write(2)` per line. Answers with what went wrong, which must be nothing.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import traceback

import bandog

THREADS = 8


class Thread:
    """One of them."""

    def __init__(self, queue: bandog.Queue, journal: int, name: str, jobs: int) -> None:
        self.queue = queue
        self.journal = journal
        self.name = name
        self.left = jobs
        self.random = random.Random(name)
        self.problems: list[str] = []

    def run(self) -> None:
        try:
            while self.left > 0 or self.queue.has_pending_work():
                if self.left > 0:
                    self.enqueue()
                self.work()
        except Exception:  # noqa: BLE001 - the test reports it
            self.problems.append(traceback.format_exc())

    def enqueue(self) -> None:
        count = min(self.left, self.random.choice([1, 1, 1, 5, 20]))
        if count == 1:
            assert self.queue.enqueue(job_id=f"{self.name}-{self.left}", lane=self.name).kind == "admitted"
        else:
            jobs = [bandog.Job(job_id=f"{self.name}-{self.left - number}", lane=self.name) for number in range(count)]
            assert {admission.kind for admission in self.queue.ingest_many(jobs)} == {"admitted"}
        self.left -= count

    def work(self) -> None:
        claims = self.queue.claim(self.name, limit=self.random.choice([1, 1, 5, 20]), lease=60)
        for claim in claims:
            os.write(self.journal, f"{claim.job_id} {claim.attempt}\n".encode())
            if self.random.random() < 0.3:
                assert self.queue.renew(claim, lease=60) is None
        if len(claims) == 1 or self.random.random() < 0.3:
            for claim in claims:
                assert self.queue.acknowledge(claim, self.name).kind == "completed"
        elif claims:
            settlements = self.queue.settle_many([(claim, bandog.Completed(self.name)) for claim in claims])
            assert {settlement.kind for settlement in settlements} == {"completed"}


def main() -> None:
    url, journal, name, jobs = sys.argv[1:]
    descriptor = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    # The default timeout: nobody who leaves it alone may ever see a lock error here.
    with bandog.connect(url) as queue:
        members = [Thread(queue, descriptor, f"{name}-{number}", int(jobs) // THREADS) for number in range(THREADS)]
        threads = [threading.Thread(target=member.run) for member in members]
        print("ready", flush=True)
        sys.stdin.readline()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(json.dumps([problem for member in members for problem in member.problems]), flush=True)


main()
