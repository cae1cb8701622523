"""The verb that produces: ``enqueue``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bandog._cli.arguments import DURATION, JSON, TIME
from bandog._cli.records import record_document
from bandog._cli.verb import verb
from bandog.job import Backoff

if TYPE_CHECKING:
    from bandog._cli.session import Session

__all__ = ["enqueue"]


@verb("enqueue")
@click.argument("payload", type=JSON)
@click.option("--job-id", "--id", "job_id", metavar="ID", help="Default: one is made.")
@click.option("--queue", default="default", show_default=True, help="What workers subscribe to.")
@click.option("--lane", default="default", show_default=True, help="A stream inside the queue.")
@click.option("--priority", type=int, default=0, show_default=True, help="A higher one runs first.")
@click.option("--max-attempts", type=int, help="Default: a reported failure is final.")
@click.option("--max-recoveries", type=int, help="How many lost claims are put back.")
@click.option("--delay", type=DURATION, help="Not before that much time has passed.")
@click.option("--at", "available_at", type=TIME, help="Not before this time, as in 2026-12-24T18:00:00+01:00.")
@click.option("--timeout", type=DURATION, help="How long an executor may take.")
@click.option("--backoff-base", type=DURATION, help="The wait after the first failure. Default: 1 s.")
@click.option("--backoff-cap", type=DURATION, help="The longest wait. Default: 60 s.")
@click.option("--backoff-jitter", type=float, help="From 0 (none, the default) to 1.")
@click.pass_obj
def enqueue(
    session: Session,
    /,
    *,
    payload: Any,
    backoff_base: float | None,
    backoff_cap: float | None,
    backoff_jitter: float | None,
    **fields: Any,
) -> None:
    """Store a job. The file is made where it is missing.

    PAYLOAD is JSON, `-` to read it from standard input, or @FILE. The same job again creates nothing, and answers
    `duplicate`; the same id with other content is refused.
    """
    waits = {"base": backoff_base, "cap": backoff_cap, "jitter": backoff_jitter}
    given = {name: value for name, value in waits.items() if value is not None}
    with session.queue(create=True) as queue:
        admission = queue.enqueue(payload, backoff=Backoff(**given) if given else None, **fields)
    record = admission.job
    session.answer(
        {
            "kind": admission.kind,
            "job_id": admission.job_id,
            "job": None if record is None else record_document(record),
        },
        [admission.kind, admission.job_id],
    )
