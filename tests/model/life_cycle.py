"""The life cycle of jobs as plain rules: what the store must look like after every operation.

Written from the words of the design, and small enough to be checked against them by reading. It knows nothing of
tables, handles or threads. Times are whole microseconds: ``wall`` since 1970, ``uptime`` since the machine was started.
Where several answers are right (a jittered wait, the order of two leases that end in one moment), the rules say which,
and take over the one that was given.
"""

import json
from dataclasses import dataclass, field, replace
from typing import Any

from bandog import Backoff, Completed, Failed, OutcomeUnknown, Release, Snooze

SECOND = 1_000_000
RECOVERED_PER_CLAIM = 100
OUTCOMES = ("completed", "failed", "cancelled", "outcome_unknown", "interrupted")


@dataclass(frozen=True)
class Mentions:
    """A text of which only some words are promised."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class Content:
    """What two jobs are compared by."""

    queue: str
    lane: str
    priority: int
    payload: str
    max_attempts: int | None
    max_recoveries: int | None


@dataclass
class Lease:
    token: str
    worker: str
    claimed_at: int
    until: int | None
    """Uptime; ``None`` where a liveness probe stands for it."""
    seconds: int
    cancel_requested_at: int | None = None
    cancel_reason: str | None = None


@dataclass
class Settled:
    kind: str
    content: Any
    """Canonical JSON of a result or evidence, otherwise the reason."""
    at: int
    worker: str | None


@dataclass
class Ended:
    """The latest claim that its holder ended, and the answer it got."""

    token: str
    kind: str
    at_rest: bool
    """Whether the job still waits where that report put it."""


@dataclass
class Stored:
    """One job: exactly one of ``queued``, ``lease`` and ``settled`` holds."""

    job_id: str
    number: int
    content: Content
    backoff: Backoff
    admitted_at: int
    available_at: int | None
    waits: bool
    """It was asked to wait. One that may run at once does not wait for a clock that was set back."""
    attempts: int = 0
    given_back: int = 0
    recoveries: int = 0
    lease: Lease | None = None
    settled: Settled | None = None
    error: Any = None
    ended: Ended | None = None

    @property
    def state(self) -> str:
        return "settled" if self.settled else "running" if self.lease else "queued"

    @property
    def charged(self) -> int:
        return self.attempts - self.given_back

    @property
    def place(self) -> tuple[int, int, int]:
        """Higher priority, then due time, then admission."""
        return -self.content.priority, self.available_at or 0, self.number


@dataclass(frozen=True)
class Answer:
    """What a settle answers; for a put-back the band that its due time lies in."""

    kind: str
    earliest: int | None = None
    latest: int | None = None


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def micros(seconds: Any) -> int:
    return round((seconds.total_seconds() if hasattr(seconds, "total_seconds") else seconds) * SECOND)


@dataclass
class LifeCycle:
    wall: int
    uptime: int
    jobs: dict[str, Stored] = field(default_factory=dict)
    limits: dict[tuple[str, str], int] = field(default_factory=dict)
    admitted: int = 0

    # Looking

    def in_state(self, state: str) -> list[Stored]:
        return [job for job in self.by_admission() if job.state == state]

    def by_admission(self) -> list[Stored]:
        return sorted(self.jobs.values(), key=lambda job: job.number)

    def lane(self, queue: str, lane: str) -> list[Stored]:
        return [job for job in self.in_state("queued") if (job.content.queue, job.content.lane) == (queue, lane)]

    def dead_letters(self, queue: str | None = None) -> list[Stored]:
        """In the order in which they were settled."""
        dead = [job for job in self.in_state("settled") if job.settled.kind in ("failed", "interrupted")]
        return sorted(
            (job for job in dead if queue in (None, job.content.queue)), key=lambda job: (job.settled.at, job.number)
        )

    def next_wake(self) -> int | None:
        due = [job.available_at for job in self.in_state("queued")]
        ends = [job.lease.until for job in self.in_state("running") if job.lease.until is not None]
        return min(due + [end + self.wall - self.uptime for end in ends], default=None)

    # Admission

    def ingest(self, job_id: str, content: Content, backoff: Backoff | None, due: int) -> tuple[str, set[str]]:
        """The kind of the admission, and for a conflict the fields that differ."""
        if job_id in self.jobs:
            known = self.jobs[job_id].content
            different = {name for name in vars(content) if getattr(content, name) != getattr(known, name)}
            return ("conflict" if different else "duplicate"), different
        limit = self.limits.get((content.queue, content.lane))
        if limit is not None and len(self.lane(content.queue, content.lane)) >= limit:
            return "refused", set()
        self.admitted += 1
        waits = due > self.wall
        self.jobs[job_id] = Stored(job_id, self.admitted, content, backoff or Backoff(), self.wall, due, waits)
        return "admitted", set()

    # Claims

    def due(self, queues: list[str] | None) -> list[Stored]:
        """What a claim takes, in its order."""
        due = [
            job
            for job in self.in_state("queued")
            if job.available_at <= self.wall and (queues is None or job.content.queue in queues)
        ]
        return sorted(due, key=lambda job: job.place)

    def claim(self, job: Stored, token: str, worker: str, seconds: int | None) -> None:
        """Counted when claimed, before the executor starts."""
        until = None if seconds is None else self.uptime + seconds
        job.attempts += 1
        job.lease = Lease(token, worker, self.wall, until, seconds or 0)
        job.available_at = None
        if job.ended:
            job.ended.at_rest = False

    def lost(self) -> list[Stored]:
        """Expired leases, the longest lost first."""
        expired = [
            job for job in self.in_state("running") if job.lease.until is not None and job.lease.until <= self.uptime
        ]
        return sorted(expired, key=lambda job: (job.lease.until, job.number))

    def recover(self, jobs: list[Stored]) -> tuple[list[str], list[str]]:
        """The ids that were put back, and those that are interrupted."""
        answer: tuple[list[str], list[str]] = ([], [])
        for job in jobs:
            answer[0 if self.recover_one(job) else 1].append(job.job_id)
        return answer

    def recover_one(self, job: Stored) -> bool:
        budget, charged = job.content, job.charged
        if budget.max_attempts is None:
            back = job.recoveries < (1 if budget.max_recoveries is None else budget.max_recoveries)
        else:
            within = budget.max_recoveries is None or job.recoveries < budget.max_recoveries
            back = charged < budget.max_attempts and within
        back = back and job.lease.cancel_requested_at is None
        why = Mentions((job.lease.worker,))
        if back:
            job.recoveries += 1
            self.put_back(job, 0, why)
        else:
            self.settle_as(job, "interrupted", why, why)
        return back

    def holds(self, job: Stored, token: str) -> bool:
        lease = job.lease
        return lease is not None and lease.token == token and (lease.until is None or lease.until > self.uptime)

    def renew(self, job: Stored, seconds: int) -> str | None:
        """The reason of a request to cancel. A liveness probe has no lease to prolong."""
        if job.lease.until is not None:
            job.lease.until, job.lease.seconds = self.uptime + seconds, seconds
        return job.lease.cancel_reason

    # Ends of claims

    def settle(self, job: Stored, token: str, report: Any) -> Answer:
        if not self.holds(job, token):
            if job.ended is None or job.ended.token != token:
                return Answer("stale")
            at = job.available_at if job.ended.at_rest and job.ended.kind != "released" else None
            return Answer(job.ended.kind, at, at)
        answer = self.end(job, report)
        job.ended = Ended(token, answer.kind, at_rest=job.state == "queued")
        return answer

    def end(self, job: Stored, report: Any) -> Answer:
        asked_to_stop = job.lease.cancel_reason
        if isinstance(report, (Snooze, Release)):
            job.given_back += 1
            if asked_to_stop is not None:
                return self.settle_as(job, "cancelled", asked_to_stop, asked_to_stop)
            if isinstance(report, Release):
                self.put_back(job, 0, None)
                return Answer("released")
            at = self.put_back(job, micros(report.delay), None)
            return Answer("snoozed", at, at)
        if isinstance(report, Failed):
            allowed = job.content.max_attempts
            if report.retry and asked_to_stop is None and allowed is not None and job.charged < allowed:
                shortest, longest = self.wait(job, report)
                at = self.put_back(job, longest, report.reason)
                return Answer("retried", at - longest + shortest, at)
            return self.settle_as(job, "failed", report.reason, report.reason)
        return self.end_for_good(job, report)

    def end_for_good(self, job: Stored, report: Any) -> Answer:
        if isinstance(report, Completed):
            try:
                return self.settle_as(job, "completed", canonical(report.result), None)
            except ValueError:
                why = Mentions(("result not storable",))
                return self.settle_as(job, "failed", why, why)
        if isinstance(report, OutcomeUnknown):
            return self.settle_as(job, "outcome_unknown", canonical(report.evidence), None)
        why = job.lease.cancel_reason if report.reason is None else report.reason
        return self.settle_as(job, "cancelled", why, why)

    def wait(self, job: Stored, report: Failed) -> tuple[int, int]:
        """The shortest and the longest wait of a retry."""
        if report.retry_in is not None:
            return micros(report.retry_in), micros(report.retry_in)
        backoff = report.backoff or job.backoff
        longest = min(micros(backoff.cap), micros(backoff.base) * 2 ** (job.charged - 1))
        return int(longest * (1 - backoff.jitter)), longest

    def put_back(self, job: Stored, wait: int, error: Any) -> int:
        job.lease = job.settled = None
        job.available_at, job.waits, job.error = self.wall + wait, wait > 0, error
        if job.ended:
            job.ended.at_rest = False
        return job.available_at

    def settle_as(self, job: Stored, kind: str, content: Any, error: Any) -> Answer:
        job.settled = Settled(kind, content, self.wall, job.lease.worker if job.lease else None)
        job.lease = job.available_at = None
        job.error = error
        if job.ended:
            job.ended.at_rest = False
        return Answer(kind)

    # Management

    def cancel(self, job: Stored, reason: str) -> tuple[str, str | None]:
        if job.settled:
            return "settled", job.settled.kind
        if job.lease:
            if job.lease.cancel_requested_at is None:
                job.lease = replace(job.lease, cancel_requested_at=self.wall, cancel_reason=reason)
            return "requested", None
        self.settle_as(job, "cancelled", reason, reason)
        return "cancelled", None

    def fail(self, jobs: list[Stored], reason: str) -> None:
        """Of a lane; which of its jobs a call with a small limit takes is not promised."""
        for job in jobs:
            self.settle_as(job, "failed", reason, reason)

    def purgeable(self, older_than: int, kinds: tuple[str, ...]) -> list[Stored]:
        """The longest settled first."""
        old = [
            job
            for job in self.in_state("settled")
            if job.settled.kind in kinds and job.settled.at <= self.wall - older_than
        ]
        return sorted(old, key=lambda job: job.settled.at)

    def requeue(self, job: Stored, *, force: bool) -> bool:
        """A new life: budgets afresh, numbers of attempts go on, former tokens mean nothing."""
        kinds = ("failed", "interrupted", "outcome_unknown", "cancelled") if force else ("failed", "interrupted")
        if job.settled is None or job.settled.kind not in kinds:
            return False
        job.given_back, job.recoveries, job.ended = job.attempts, 0, None
        self.put_back(job, 0, None)
        return True

    # Time

    def passes(self, by: int) -> None:
        self.wall += by
        self.uptime += by

    def clock_is_set(self, by: int) -> None:
        """Leases stand on uptime. What may run at once stays due; what waits goes by the clock."""
        self.wall += by
        for job in self.in_state("queued"):
            if not job.waits:
                job.available_at = min(job.available_at, self.wall)

    def starts_again(self, uptime: int) -> None:
        """No holder of a lease outlives the boot that it was made in. A probe's claims are left to the probe."""
        self.uptime = uptime
        for job in self.in_state("running"):
            if job.lease.until is not None:
                job.lease.until = 0

    def adopt(self, seconds: int) -> None:
        """A runtime with leases finds no probe at work: its claims get a full lease."""
        for job in self.in_state("running"):
            if job.lease.until is None:
                job.lease.until, job.lease.seconds = self.uptime + seconds, seconds
