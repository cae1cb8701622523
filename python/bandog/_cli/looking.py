"""The verbs that look, and change nothing: ``get``, ``jobs``, ``dead``, ``stats``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from bandog._cli.arguments import OUTCOMES, STATES
from bandog._cli.records import COLUMNS, document_fields, page_document, record_document, record_row
from bandog._cli.showing import is_terminal, safe, stamp
from bandog._cli.verb import verb

if TYPE_CHECKING:
    from bandog._cli.session import Session
    from bandog.answers import Page, Snapshot

__all__ = ["dead", "get", "jobs", "stats"]

MINUTE = 60.0
"""How old a snapshot is in seconds before it is worth a line."""

MANY_TRANSACTIONS = 100_000
"""The same of one whose time is not known: as many as a busy server begins in some minutes."""

_limit = click.option("--limit", type=int, default=100, show_default=True, help="The most jobs.")
_after = click.option("--after", metavar="NEXT", help="Go on where the page before ended.")


@verb("get")
@click.argument("job_id")
@click.pass_obj
def get(session: Session, *, job_id: str) -> None:
    """Show everything that is known of a job."""
    with session.queue() as queue:
        document = record_document(queue.get(job_id))
    session.fields(document, [document_fields(document)])


@verb("jobs")
@click.option("--state", type=STATES)
@click.option("--outcome", type=OUTCOMES, help="Only settled jobs of this outcome.")
@click.option("--queue", "of_queue", help="Only jobs of this queue.")
@click.option("--lane", help="Only jobs of this lane.")
@_after
@_limit
@click.pass_obj
def jobs(
    session: Session,
    *,
    state: str | None,
    outcome: str | None,
    of_queue: str | None,
    lane: str | None,
    after: str | None,
    limit: int,
) -> None:
    """List jobs in order of admission.

    Where nobody watches, a line per job has: id, queue, lane, state or outcome, attempts, since when or when it is
    due, and the latest error, with tabs between them.
    """
    with session.queue() as queue:
        page = queue.jobs(state=state, outcome=outcome, queue=of_queue, lane=lane, after=after, limit=limit)
    _show_page(session, page)


@verb("dead")
@click.option("--queue", "of_queue", help="Only jobs of this queue.")
@_after
@_limit
@click.pass_obj
def dead(session: Session, *, of_queue: str | None, after: str | None, limit: int) -> None:
    """List jobs that failed or were interrupted.

    They stand in the order in which they were settled. Lines are those of `jobs`.
    """
    with session.queue() as queue:
        page = queue.dead_letters(queue=of_queue, after=after, limit=limit)
    _show_page(session, page)


def _show_page(session: Session, page: Page) -> None:
    session.table(lambda: page_document(page), COLUMNS, map(record_row, page), numbers=["attempts"])
    if page.next is not None:
        session.note(f"there are more: --after {safe(page.next)}")


@verb("stats")
@click.option("--bound", type=int, default=10_000, show_default=True, help="Where counting stops.")
@click.pass_obj
def stats(session: Session, *, bound: int) -> None:
    """Count jobs, by queue and by outcome.

    By queue: what there is to do. By outcome: what was done.

    Counting stops at the bound: a number with a `+` means that many or more.
    """
    with session.queue() as queue:
        found = queue.stats(bound=bound)

    def count(number: int) -> str:
        return f"{number}+" if number >= found.bound else str(number)

    queues = [
        (
            name,
            count(of_queue.queued),
            count(of_queue.due),
            str(of_queue.running),
            stamp(of_queue.oldest_due) if of_queue.oldest_due else "",
        )
        for name, of_queue in found.queues.items()
    ]
    outcomes = [(kind, count(number)) for kind, number in found.outcomes.items()]
    if session.as_json:
        document = {
            "queues": {
                name: {
                    "queued": of_queue.queued,
                    "due": of_queue.due,
                    "running": of_queue.running,
                    "oldest_due": None if of_queue.oldest_due is None else stamp(of_queue.oldest_due),
                }
                for name, of_queue in found.queues.items()
            },
            "outcomes": dict(found.outcomes),
            "bound": found.bound,
            "oldest_snapshot": None if found.oldest_snapshot is None else asdict(found.oldest_snapshot),
        }
        session.table(lambda: document, (), ())
    elif is_terminal():
        numbers = ["queued", "due", "running", "jobs"]
        session.table(dict, ("queue", "queued", "due", "running", "oldest due"), queues, numbers)
        session.table(dict, ("outcome", "jobs"), outcomes, numbers)
    else:
        # One table cannot hold both: the first word says which a line belongs to.
        session.table(dict, (), [("queue", *row) for row in queues] + [("outcome", *row) for row in outcomes])
    if found.oldest_snapshot is not None and _is_worth_a_line(found.oldest_snapshot):
        session.note(_told(found.oldest_snapshot))


def _is_worth_a_line(snapshot: Snapshot) -> bool:
    """Whether somebody should be told. Where the time is not known, the transactions since then stand for it."""
    return snapshot.transactions >= MANY_TRANSACTIONS if snapshot.age is None else snapshot.age > MINUTE


def _told(snapshot: Snapshot) -> str:
    what = {"session": "session", "prepared": "prepared transaction", "slot": "replication slot"}[snapshot.kind]
    name = f" ({snapshot.application})" if snapshot.application else ""
    since = "" if snapshot.age is None else f"{snapshot.age:.0f} s, "
    return safe(
        f"{what} {snapshot.holder}{name} has kept dead rows from being removed for {since}{snapshot.transactions} "
        "transactions: tables grow until it ends"
    )
