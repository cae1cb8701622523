"""Mistakes that a type checker must find. Never run.

Each wrong line carries the rule that catches it. A line that is no longer caught makes its comment unnecessary, which
is an error (`reportUnnecessaryTypeIgnoreComment`).
"""

from __future__ import annotations

import bandog
from bandog.testing import FakeClock


def open_wrongly() -> None:
    bandog.connect(1)  # pyright: ignore[reportArgumentType]
    bandog.connect("jobs.sqlite", "full")  # pyright: ignore[reportCallIssue]
    bandog.connect("jobs.sqlite", timeout=1)  # pyright: ignore[reportCallIssue]
    bandog.connect("jobs.sqlite", clock=0.0)  # pyright: ignore[reportArgumentType]
    FakeClock("2026-01-01")  # pyright: ignore[reportArgumentType]


def admit_wrongly(queue: bandog.Queue) -> None:
    bandog.Job({"a": 1})  # pyright: ignore[reportCallIssue]
    bandog.Job(priority="high")  # pyright: ignore[reportArgumentType]
    bandog.Job(delay="1 minute")  # pyright: ignore[reportArgumentType]
    queue.ingest({"job_id": "a"})  # pyright: ignore[reportArgumentType]
    queue.ingest_many(bandog.Job())  # pyright: ignore[reportArgumentType]
    queue.enqueue({}, "mail")  # pyright: ignore[reportCallIssue]
    job = bandog.Job()
    job.priority = 1  # pyright: ignore[reportAttributeAccessIssue]


def pull_wrongly(queue: bandog.Queue) -> None:
    (claim,) = queue.claim(limit=1)
    claim.attempt = 2  # pyright: ignore[reportAttributeAccessIssue]
    queue.acknowledge(claim.job_id)  # pyright: ignore[reportArgumentType]
    queue.settle(claim, None)  # pyright: ignore[reportArgumentType]
    queue.settle(claim, bandog.Interrupted("only recovery records it"))  # pyright: ignore[reportArgumentType]
    queue.fail(claim)  # pyright: ignore[reportCallIssue]
    queue.fail(claim, "why", False)  # pyright: ignore[reportCallIssue]
    queue.renew(claim, 30)  # pyright: ignore[reportCallIssue]
    queue.purge()  # pyright: ignore[reportCallIssue]


def no_outcome(_job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> str:
    return "done"


def no_token(_job: bandog.ClaimedJob) -> None: ...


async def asynchronous(_job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None: ...


def run_wrongly(queue: bandog.Queue) -> None:
    bandog.Watchdog(queue, no_outcome)  # pyright: ignore[reportArgumentType]
    bandog.Watchdog(queue, no_token)  # pyright: ignore[reportArgumentType]
    bandog.Watchdog(queue, asynchronous)  # pyright: ignore[reportArgumentType]
    bandog.Watchdog("jobs.sqlite", lambda _job, _cancel: None)  # pyright: ignore[reportArgumentType]
    if bandog.Watchdog(queue, lambda _job, _cancel: None).tick().outcome == "completed":  # pyright: ignore[reportUnnecessaryComparison]
        return


tasks = bandog.Tasks()


@tasks.task("send_email")
def send_email(to: str, *, urgent: bool = False) -> int:
    return len(to) + urgent


def register_wrongly() -> None:
    tasks.task(5)  # pyright: ignore[reportArgumentType, reportCallIssue]
    tasks.task("a", job_id="b")  # pyright: ignore[reportCallIssue]
    tasks.task("a", priority="high")  # pyright: ignore[reportArgumentType]
    tasks.task("a")(5)  # pyright: ignore[reportArgumentType]


def enqueue_wrongly(queue: bandog.Queue) -> None:
    send_email.enqueue(queue)  # pyright: ignore[reportCallIssue]
    send_email.enqueue(queue, 5)  # pyright: ignore[reportArgumentType, reportCallIssue]
    send_email.enqueue(queue, "ada", True)  # pyright: ignore[reportCallIssue]
    send_email.enqueue(queue, "ada", hurry=True)  # pyright: ignore[reportCallIssue]
    send_email.enqueue("ada")  # pyright: ignore[reportCallIssue]
    send_email.job()  # pyright: ignore[reportCallIssue]
    send_email.options(payload=1)  # pyright: ignore[reportCallIssue]
    send_email.options(delay="soon")  # pyright: ignore[reportArgumentType]
    send_email(5)  # pyright: ignore[reportArgumentType]


async def enqueue_wrongly_async(queue: bandog.AsyncQueue) -> None:
    admission: bandog.Admission = send_email.enqueue(queue, "ada")  # pyright: ignore[reportAssignmentType]
    print(admission)
    await send_email.enqueue(queue, "ada", hurry=True)  # pyright: ignore[reportCallIssue]


def look_wrongly(queue: bandog.Queue) -> None:
    record = queue.read("a")
    print(record.outcome.kind)  # pyright: ignore[reportOptionalMemberAccess]
    queue.release(record)  # pyright: ignore[reportArgumentType]
    if record.state == "done":  # pyright: ignore[reportUnnecessaryComparison]
        return
