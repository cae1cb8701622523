"""Stored jobs and claims: as documents for scripts, as fields and rows for people."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from bandog._cli.showing import compact, stamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bandog._core import ClaimedJob, JobRecord
    from bandog.answers import Page
    from bandog.outcome import Outcome

__all__ = ["COLUMNS", "claim_document", "document_fields", "page_document", "record_document", "record_row"]

_RECORD = (
    "job_id",
    "state",
    "outcome",
    "queue",
    "lane",
    "priority",
    "payload",
    "max_attempts",
    "max_recoveries",
    "attempts",
    "given_back",
    "charged",
    "recoveries",
    "admitted_at",
    "available_at",
    "worker",
    "claimed_at",
    "lease_until",
    "cancel_requested_at",
    "cancel_reason",
    "settled_at",
    "error",
)

_CLAIM = (
    "job_id",
    "lease_token",
    "attempt",
    "payload",
    "queue",
    "lane",
    "priority",
    "max_attempts",
    "max_recoveries",
    "charged",
    "recoveries",
    "timeout",
    "admitted_at",
    "claimed_at",
    "last_error",
)

_DETAILS = ("result", "reason", "evidence")
"""What an outcome says beside its kind, whichever of them it has."""

COLUMNS = ("job", "queue", "lane", "state", "attempts", "since or due", "error")

SHOWN_ERROR = 200
"""Characters of an error that a list shows. All of it is shown by ``get``."""


def record_document(record: JobRecord) -> dict[str, Any]:
    """Everything that is known of a job, under the names of :class:`bandog.JobRecord`."""
    return _document(record, _RECORD)


def claim_document(claim: ClaimedJob) -> dict[str, Any]:
    """A claim with its token, under the names of :class:`bandog.ClaimedJob`."""
    return _document(claim, _CLAIM)


def page_document(page: Page) -> dict[str, Any]:
    """One page of a list, and where the next one begins."""
    return {"jobs": [record_document(record) for record in page], "next": page.next}


def document_fields(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A document as names and texts. What is not known is left out."""
    for name, value in document.items():
        if name == "outcome" and value is not None:
            yield name, value["kind"]
            for detail in _DETAILS:
                if value.get(detail) is not None:
                    yield detail, value[detail] if detail == "reason" else compact(value[detail])
        elif name == "payload":
            yield name, compact(value)
        elif value is not None:
            yield name, str(value)


def record_row(record: JobRecord) -> tuple[str, ...]:
    """A job as the values of ``COLUMNS``."""
    since = record.settled_at or record.claimed_at or record.available_at
    return (
        record.job_id,
        record.queue,
        record.lane,
        record.outcome.kind if record.outcome else record.state,
        str(record.attempts),
        f"{since:%Y-%m-%d %H:%M:%S}Z" if since else "",
        (record.error or "")[:SHOWN_ERROR],
    )


def _document(what: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: _value(name, getattr(what, name)) for name in names}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return stamp(value)
    return _outcome(value) if name == "outcome" and value is not None else value


def _outcome(outcome: Outcome) -> dict[str, Any]:
    details = {detail: getattr(outcome, detail) for detail in _DETAILS if hasattr(outcome, detail)}
    return {"kind": outcome.kind, **details}
