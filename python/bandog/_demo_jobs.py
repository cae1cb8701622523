"""The jobs of ``bandog demo``: what is admitted, what their executor does, and the child process that dies.

Every job says in its payload what is to happen to it, so that one executor does for all. Ids are the same in every run:
a second run is an identical replay.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import bandog

if TYPE_CHECKING:
    from bandog import CancellationToken, ClaimedJob
    from bandog.outcome import Report

__all__ = ["CHILD_LEASE", "KINDS", "QUEUE", "QUEUES", "REPLAYED", "TAKEN", "Kind", "execute", "job_ids", "jobs"]

QUEUE = "demo"
CHILD_QUEUE = "demo-child"
QUEUES = (QUEUE, CHILD_QUEUE)

REPLAYED = 30
"""How many mails are ingested a second time."""

TAKEN = 5
"""How many ids are ingested again with another payload."""

CHILD_LEASE = 1.0
"""Seconds until the claims of the dead child are lost."""

EXIT_CODE = 9
"""The child's, so that it is known from one that failed by itself."""

WORK = 0.004
"""Seconds that a job takes, so that there is something to watch."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table at the end.

    Attributes:
        name: part of the ids, and the lane.
        count: how many jobs.
        why: what is told of them.
        failures: how many attempts of each fail.
        max_attempts: see :class:`bandog.Job`.
        max_recoveries: see :class:`bandog.Job`.
        delay: seconds until the first of them is due; the others follow.
        queue: the queue that they are in.
    """

    name: str
    count: int
    why: str
    failures: int = 0
    max_attempts: int | None = None
    max_recoveries: int | None = None
    delay: float | None = None
    queue: str = QUEUE


KINDS = (
    Kind("mail", 200, "It ran once and has its result."),
    Kind("flaky", 40, "It failed twice, waited for its back-off each time, and went well.", failures=2, max_attempts=4),
    Kind("hopeless", 10, "It failed until its attempts were spent: a dead letter.", failures=3, max_attempts=3),
    Kind("refused", 10, "It reported a failure that no retry mends: final at once.", failures=1, max_attempts=3),
    Kind("doubtful", 5, "Nobody can tell whether it took effect: not run again."),
    Kind("later", 25, "It was not due before its delay had passed.", delay=1.0),
    Kind("orphan", 1, "Its process died; its lease ran out, it was recovered.", queue=CHILD_QUEUE),
    Kind(
        "risky",
        1,
        "Its process died, and it allows no recovery: not run again.",
        max_recoveries=0,
        queue=CHILD_QUEUE,
    ),
)


def job_ids(kind: Kind) -> list[str]:
    """The ids of the jobs of one kind."""
    return [f"demo-{kind.name}-{number:03}" for number in range(1, kind.count + 1)]


def jobs(kind: Kind) -> list[bandog.Job]:
    """The jobs of one kind, the same in every run."""
    return [
        bandog.Job(
            job_id=job_id,
            queue=kind.queue,
            lane=kind.name,
            payload={"kind": kind.name, "failures": kind.failures, "number": number},
            max_attempts=kind.max_attempts,
            max_recoveries=kind.max_recoveries,
            delay=None if kind.delay is None else kind.delay + number / 20,
            backoff=bandog.Backoff(base=0.2, cap=1.0),
        )
        for number, job_id in enumerate(job_ids(kind), start=1)
    ]


def execute(job: ClaimedJob, cancel: CancellationToken) -> Report:
    """Do what the payload says."""
    if cancel.wait(WORK):
        return bandog.Cancelled(cancel.reason)
    kind: str = job.payload["kind"]
    if kind == "refused":
        return bandog.Failed("no such address", retry=False)
    if kind == "doubtful":
        return bandog.OutcomeUnknown({"provider": "no answer within 10 s"})
    if job.attempt <= job.payload["failures"]:
        message = f"connection reset on attempt {job.attempt}"
        raise ConnectionError(message)
    return bandog.Completed({"attempt": job.attempt})


def die(path: str) -> None:
    """Claim what is in the child's queue, and die in the middle of the work. No handler runs, nothing is written."""
    queue = bandog.connect(path)
    claims = queue.claim("demo-child", queues=CHILD_QUEUE, limit=2, lease=CHILD_LEASE)
    print(*(claim.job_id for claim in claims), flush=True)
    os._exit(EXIT_CODE)


if __name__ == "__main__":
    die(sys.argv[1])
