"""The verbs that manage stored jobs: ``requeue``, ``cancel``, ``fail-lane``, ``purge``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bandog._cli.arguments import DURATION, OUTCOMES
from bandog._cli.exits import Refused
from bandog._cli.verb import verb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bandog._cli.session import Session

__all__ = ["cancel", "fail_lane", "purge", "requeue"]

BATCH = 1000
"""Jobs of one transaction, so that many of them keep nobody else from the store for long."""


@verb("requeue")
@click.argument("job_id")
@click.option("--force", is_flag=True, help="Also where the outcome is unknown, or cancelled.")
@click.pass_obj
def requeue(session: Session, *, job_id: str, force: bool) -> None:
    """Give a dead letter a new life.

    It is queued at once, with all its attempts.
    """
    with session.queue() as queue:
        queue.requeue(job_id, force=force)
    session.answer({"kind": "requeued", "job_id": job_id}, ["requeued", job_id])


@verb("cancel")
@click.argument("job_id")
@click.option("--reason", default="cancelled on request", show_default=True, help="For the record.")
@click.pass_obj
def cancel(session: Session, *, job_id: str, reason: str) -> None:
    """Cancel a queued job, or ask a running one.

    A queued job never runs; a running one is asked to stop, and ends as its executor reports. Answers `cancelled` or
    `requested`; a job that has its outcome already is refused.
    """
    with session.queue() as queue:
        answer = queue.cancel(job_id, reason)
    words = [answer.kind, job_id, *([answer.outcome] if answer.outcome else [])]
    session.answer({"kind": answer.kind, "job_id": job_id, "outcome": answer.outcome}, words)
    if answer.kind == "settled":
        message = f"job {job_id!r} is {answer.outcome} already; nothing was changed"
        raise Refused(message)


@verb("fail-lane")
@click.argument("queue")
@click.argument("lane")
@click.argument("reason")
@click.option("--limit", type=click.IntRange(min=1), help="The most jobs. Default: all that are queued.")
@click.pass_obj
def fail_lane(session: Session, *, queue: str, lane: str, reason: str, limit: int | None) -> None:
    """Fail the queued jobs of a lane, for REASON.

    Running ones are left alone.

    Answers how many were failed, and how many are left (counted up to 10,000).
    """
    failed = left = 0
    with session.queue() as store:
        for batch in _batches(limit):
            answer = store.fail_lane(queue, lane, reason, limit=batch)
            failed, left = failed + answer.failed, answer.left
            if answer.failed < batch:
                break
    session.answer({"kind": "failed", "failed": failed, "left": left}, ["failed", str(failed), "left", str(left)])


@verb("purge")
@click.option("--older-than", type=DURATION, required=True, help="Settled that long ago, as in 7d. 0 for all.")
@click.option("--outcome", "outcomes", type=OUTCOMES, multiple=True, help="May be repeated. Default: all kinds.")
@click.option("--limit", type=click.IntRange(min=1), help="The most jobs. Default: all.")
@click.pass_obj
def purge(session: Session, *, older_than: float, outcomes: tuple[str, ...], limit: int | None) -> None:
    """Forget settled jobs.

    The longest settled go first. With a job goes the protection against its replay.
    """
    purged = 0
    with session.queue() as queue:
        for batch in _batches(limit):
            forgotten = queue.purge(older_than=older_than, outcomes=outcomes or None, limit=batch)
            purged += forgotten
            if forgotten < batch:
                break
    session.answer({"kind": "purged", "purged": purged}, ["purged", str(purged)])


def _batches(limit: int | None) -> Iterator[int]:
    """Sizes of batches that come to ``limit``, or that do not end."""
    while limit is None or limit > 0:
        batch = BATCH if limit is None else min(limit, BATCH)
        yield batch
        if limit is not None:
            limit -= batch
