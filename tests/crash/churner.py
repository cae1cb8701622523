"""Ingests, claims, runs and settles until it is killed: `churner.py URL JOURNAL SEED`.

What was acknowledged to it goes into the journal, one `write(2)` per line at the end of the file: that survives the
death of the process. An effect is written there before its job is settled, as a real executor's would be.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

import bandog

LEASE = 0.5
KINDS = ("retried", "snoozed", "released")


class Churner:
    """One process's work."""

    def __init__(self, queue: bandog.Queue, journal: int, seed: str) -> None:
        self.queue = queue
        self.journal = journal
        self.name = seed
        self.random = random.Random(seed)
        self.made = 0

    def note(self, what: str, **facts: object) -> None:
        os.write(self.journal, json.dumps({"what": what, "by": self.name, **facts}).encode() + b"\n")

    def job(self) -> bandog.Job:
        self.made += 1
        chance = self.random
        return bandog.Job(
            job_id=f"{self.name}-{self.made}",
            payload={"text": "x" * chance.choice([1, 50, 3000])},
            queue=chance.choice(["mail", "reports"]),
            priority=chance.randint(0, 2),
            max_attempts=chance.choice([None, None, 1, 3, 6]),
            max_recoveries=chance.choice([None, None, 0, 2, 4]),
            backoff=bandog.Backoff(base=0.01, cap=0.05),
        )

    def ingest(self) -> None:
        jobs = [self.job() for _ in range(self.random.choice([1, 1, 3, 30]))]
        ids = [job.job_id for job in jobs]
        budgets = {job.job_id: (job.max_attempts, job.max_recoveries, len(job.payload["text"])) for job in jobs}
        self.note("tries", jobs=budgets)
        admissions = self.queue.ingest_many(jobs)
        assert [admission.kind for admission in admissions] == ["admitted"] * len(jobs)
        self.note("admitted", jobs=ids)

    def report(self, attempt: int) -> bandog.outcome.Report:
        chance = self.random.random()
        if chance < 0.60:
            return bandog.Completed({"by": self.name, "attempt": attempt})
        if chance < 0.80:
            return bandog.Failed("as the dice said", retry_in=self.random.choice([None, 0.0]))
        if chance < 0.87:
            return bandog.Snooze(0.01)
        if chance < 0.94:
            return bandog.Release()
        return bandog.OutcomeUnknown({"by": self.name})

    def effect(self, job: bandog.ClaimedJob) -> None:
        self.note("effect", job=job.job_id, attempt=job.attempt)

    def pull(self) -> None:
        claims = self.queue.claim(self.name, limit=self.random.choice([1, 1, 4, 16]), lease=LEASE)
        for claim in claims:
            self.note("claimed", job=claim.job_id, attempt=claim.attempt)
        for claim in claims:
            report = self.report(claim.attempt)
            try:
                if self.random.random() < 0.2:
                    self.queue.renew(claim, lease=LEASE)
                self.effect(claim)
                settlement = self.queue.settle(claim, report)
            except bandog.StaleClaim:
                self.note("stale", job=claim.job_id, attempt=claim.attempt)
                continue
            self.note("settled", job=claim.job_id, attempt=claim.attempt, kind=settlement.kind)
            if self.random.random() < 0.1 and settlement.kind not in KINDS:
                # As if the first answer had been lost.
                again = self.queue.settle(claim, report)
                assert again.kind == settlement.kind, (again, settlement)

    def tick(self) -> None:
        ran: list[int] = []

        def execute(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> bandog.outcome.Report:
            ran.append(job.attempt)
            self.note("claimed", job=job.job_id, attempt=job.attempt)
            self.effect(job)
            return self.report(job.attempt)

        with bandog.Watchdog(self.queue, execute, lease=LEASE, worker=self.name) as watchdog:
            for _ in range(5):
                tick = watchdog.tick()
                if tick.kind == "idle":
                    break
                if tick.kind == "stale":
                    # Also where the claim came too late to be started, and was lost before it could be handed back.
                    if ran:
                        self.note("stale", job=tick.job_id, attempt=ran.pop())
                elif ran:
                    kind = tick.outcome.kind if tick.outcome else tick.kind
                    self.note("settled", job=tick.job_id, attempt=ran.pop(), kind=kind)

    def run(self) -> None:
        while True:
            self.random.choice([self.ingest, self.pull, self.pull, self.tick, self.tick])()


def main() -> None:
    """Never returns: it is there to be killed."""
    url, journal, seed = sys.argv[1:]
    descriptor = os.open(Path(journal), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with bandog.connect(url) as queue:
        print("ready", flush=True)
        Churner(queue, descriptor, seed).run()


main()
