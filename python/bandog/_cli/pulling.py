"""The verbs of the pull API: ``claim``, then ``ack`` or ``fail``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bandog._cli.arguments import DURATION, JSON
from bandog._cli.exits import NOTHING_DUE, OK, Refused
from bandog._cli.records import claim_document, document_fields
from bandog._cli.showing import compact, is_terminal, stamp
from bandog._cli.verb import verb

if TYPE_CHECKING:
    from bandog._cli.session import Session
    from bandog.outcome import Settlement

__all__ = ["ack", "claim", "fail"]


@verb("claim")
@click.option("--worker", metavar="NAME", help="A name for the record. Default: host and process.")
@click.option("--queue", "queues", multiple=True, help="Only from this queue; may be repeated. Default: all.")
@click.option("--limit", type=int, default=1, show_default=True, help="The most jobs.")
@click.option("--lease", type=DURATION, default=120.0, show_default=True, help="How long the claims hold.")
@click.pass_obj
def claim(session: Session, *, worker: str | None, queues: tuple[str, ...], limit: int, lease: float) -> int:
    """Claim due jobs. Claims that were lost are recovered first.

    Nobody renews these claims: `ack` or `fail` each within the lease, or its job is given to somebody else. Where
    nobody watches, a line per job has its id, lease token, attempt and payload, with tabs between them. The exit code
    is 4 where no job is due.
    """
    with session.queue() as queue:
        claims = queue.claim(worker, queues=queues or None, limit=limit, lease=lease)
    if session.as_json or is_terminal():
        documents = [claim_document(claimed) for claimed in claims]
        session.fields({"jobs": documents}, [document_fields(document) for document in documents])
    else:
        rows = [
            (claimed.job_id, claimed.lease_token, str(claimed.attempt), compact(claimed.payload)) for claimed in claims
        ]
        session.table(dict, (), rows)
    if not claims:
        session.note("no job is due")
    return OK if claims else NOTHING_DUE


@verb("ack")
@click.argument("job_id")
@click.argument("lease_token")
@click.option("--result", type=JSON, help="What came of it: JSON, `-` for standard input, or @FILE.")
@click.pass_obj
def ack(session: Session, *, job_id: str, lease_token: str, result: Any) -> None:
    """Complete the job of a claim."""
    with session.queue() as queue:
        settlement = queue.acknowledge((job_id, lease_token), result)
    _settled(session, job_id, settlement, {"completed"})


@verb("fail")
@click.argument("job_id")
@click.argument("lease_token")
@click.argument("reason")
@click.option("--no-retry", is_flag=True, help="A final failure, whatever the budgets.")
@click.option("--retry-in", type=DURATION, help="The next attempt after that long, instead of the back-off.")
@click.option("--base", type=DURATION, help="The back-off's wait after the first failure.")
@click.option("--cap", type=DURATION, help="The back-off's longest wait.")
@click.pass_obj
def fail(session: Session, /, *, job_id: str, lease_token: str, reason: str, no_retry: bool, **waits: Any) -> None:
    """Fail the attempt of a claim, for REASON.

    Its job is tried again while attempts are left; otherwise it is a dead letter.
    """
    with session.queue() as queue:
        settlement = queue.fail((job_id, lease_token), reason, retry=not no_retry, **waits)
    _settled(session, job_id, settlement, {"failed", "retried"})


def _settled(session: Session, job_id: str, settlement: Settlement, expected: set[str]) -> None:
    due = settlement.available_at
    session.answer(
        {"kind": settlement.kind, "job_id": job_id, "available_at": None if due is None else stamp(due)},
        [settlement.kind, job_id, *([stamp(due)] if due else [])],
    )
    if settlement.kind not in expected:
        message = f"the claim on job {job_id!r} was ended before, as {settlement.kind}; nothing was changed"
        raise Refused(message)
