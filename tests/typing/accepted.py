"""Uses of the public names that a type checker must accept, with the types that it must see. Never run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, assert_type

import bandog
from bandog.outcome import Outcome, Report
from bandog.tasks import current_job, current_token
from bandog.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator


def open_in_every_way() -> Iterator[bandog.Queue]:
    yield bandog.connect("jobs.sqlite")
    yield bandog.connect(Path("jobs.sqlite"), synchronous="normal", busy_timeout=timedelta(seconds=1))
    yield bandog.connect("sqlite:///jobs.sqlite?busy_timeout=1", payload_limit=1 << 16, allow_network_filesystem=True)
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    yield bandog.connect("jobs.sqlite", clock=clock)
    clock.advance(0.5)
    clock.step_wall(timedelta(hours=-1))
    assert_type(clock.now(), datetime)


def admit(queue: bandog.Queue) -> None:
    job = bandog.Job(
        payload={"a": [1, 2.5, None, True]}, queue="mail", delay=timedelta(minutes=1), backoff=bandog.Backoff(2, 30)
    )
    admission = queue.ingest(job)
    assert_type(admission, bandog.Admission)
    assert_type(admission.kind, Literal["admitted", "duplicate", "conflict", "refused"])
    assert_type(admission.limit, int | None)
    if admission.job is not None:
        assert_type(admission.job.outcome, Outcome | None)
    assert_type(queue.ingest_many(job for _ in range(3)), list[bandog.Admission])
    assert_type(queue.enqueue([1], job_id="a", available_at=datetime.now(UTC), timeout=3), bandog.Admission)


def pull(queue: bandog.Queue) -> None:
    for claim in queue.claim("w-1", queues=["mail", "sms"], limit=10, lease=30):
        assert_type(claim, bandog.ClaimedJob)
        assert_type(claim.payload, Any)
        assert_type(queue.renew(claim), str | None)
        assert_type(queue.acknowledge(claim, {"sent": True}), bandog.Settlement)
        queue.fail((claim.job_id, claim.lease_token), "why", retry_in=timedelta(minutes=5))
        queue.cancelled(claim)
        queue.outcome_unknown(claim, evidence=["timeout after send"])
        queue.release(claim)
        reports: list[tuple[bandog.ClaimedJob | tuple[str, str], Report]] = [(claim, bandog.Snooze(60))]
        assert_type(queue.settle_many(reports), list[bandog.Settlement])
    assert_type(queue.recover(), tuple[tuple[str, ...], tuple[str, ...]])
    assert_type(queue.next_wake(), datetime | None)
    assert_type(queue.has_pending_work(), bool)


def look_after(queue: bandog.Queue) -> None:
    assert_type(queue.cancel("a", "no longer wanted"), bandog.Cancellation)
    assert_type(queue.fail_lane("mail", "acme", "why", limit=10), bandog.FailedLane)
    queue.set_lane_limit("mail", "acme", 10)
    queue.set_lane_limit("mail", "acme", None)
    assert_type(queue.purge(older_than=timedelta(days=7), outcomes=["completed"], limit=10), int)
    queue.purge(older_than=60.0, outcomes="failed")
    queue.requeue("a", force=True)
    page = queue.dead_letters(queue="mail", limit=10)
    assert_type(page.next, str | None)
    assert_type([record.outcome for record in page], list[Outcome | None])
    assert_type(queue.jobs(state="settled", outcome="failed", lane="acme", after=page.next), bandog.Page)
    assert_type(queue.stats(bound=5).queues["mail"].oldest_due, datetime | None)
    assert_type(queue.get("a"), bandog.JobRecord)


def send(job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> bandog.Completed | bandog.Failed | None:
    cancel.raise_if_aborted()
    cancel.add_callback(print)
    if cancel.wait(timeout=1.5):
        assert_type(cancel.reason, Literal["cancel_requested", "lease_lost", "shutdown", "timeout"] | None)
        return bandog.Failed(cancel.reason or "", retry=False)
    return bandog.Completed(job.attempt) if job.payload else None


def only_prints(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    print(job.job_id)


def run(queue: bandog.Queue) -> None:
    executors: list[Callable[[bandog.ClaimedJob, bandog.CancellationToken], Report | None]] = [send, only_prints]
    for execute in executors:
        with bandog.Watchdog(queue, execute, queues="mail", lease=timedelta(seconds=30)) as dog:
            tick = dog.tick()
            assert_type(tick, bandog.Tick)
            assert_type(tick.outcome, Outcome | None)


tasks = bandog.Tasks()


@tasks.task("send_email", queue="mail", max_attempts=5, backoff=bandog.Backoff(2, 60), timeout=timedelta(minutes=1))
def send_email(to: str, /, subject: str = "", *, urgent: bool = False) -> int:
    return len(f"{current_job().job_id} {to} {subject} {urgent}") if not current_token().aborted else 0


@tasks.task
async def fetch(url: str) -> bytes:
    return url.encode()


@tasks.task(priority=3)
def clean_up() -> None: ...


def call_tasks() -> Coroutine[Any, Any, bytes]:
    assert_type(send_email("ada", urgent=True), int)
    assert_type(send_email.name, str)
    return fetch("https://example.org")


def enqueue_tasks(queue: bandog.Queue) -> None:
    assert_type(send_email.enqueue(queue, "ada", "hello", urgent=True), bandog.Admission)
    assert_type(fetch.enqueue(queue, url="https://example.org"), bandog.Admission)
    assert_type(clean_up.enqueue(queue), bandog.Admission)
    assert_type(send_email.job("ada"), bandog.Job)
    later = send_email.options(job_id="welcome-42", delay=60, max_attempts=None)
    assert_type(later.enqueue(queue, "ada", subject="hello"), bandog.Admission)
    queue.ingest_many(clean_up.options(lane=lane).job() for lane in ("a", "b"))


async def enqueue_tasks_async(queue: bandog.AsyncQueue) -> None:
    assert_type(await send_email.enqueue(queue, "ada", urgent=True), bandog.Admission)
    assert_type(await fetch.options(job_id="a").enqueue(queue, "https://example.org"), bandog.Admission)


def run_tasks(queue: bandog.Queue, asynchronous: bandog.AsyncQueue) -> None:
    bandog.Watchdog(queue, tasks)
    bandog.Watchdog(queue, execute=tasks, queues="mail")
    bandog.AsyncWatchdog(asynchronous, tasks)
    bandog.AsyncWatchdog(asynchronous, tasks.execute_async)
    assert_type(tasks.is_async, bool)
    assert_type(tasks.names, tuple[str, ...])


def look(queue: bandog.Queue) -> str:
    record = queue.read("a")
    assert_type(record.state, Literal["queued", "running", "settled"])
    match record.outcome:
        case None:
            return record.state
        case bandog.Completed(result):
            assert_type(result, Any)
            return "done"
        case bandog.Failed(reason) | bandog.Interrupted(reason):
            return reason
        case bandog.Cancelled(reason):
            return reason or ""
        case bandog.OutcomeUnknown():
            return "?"


def handle(queue: bandog.Queue) -> str:
    try:
        queue.ingest(bandog.Job())
    except bandog.JobConflict as error:
        return error.difference
    except bandog.PayloadError as error:
        return error.path
    except bandog.StoreBusy as error:
        return f"{error.target} {error.waited:.1f}"
    except bandog.BandogError as error:
        return error.message
    return ""
