"""What an executor's end means: the report of what it returned, or of what it raised."""

from __future__ import annotations

import traceback as tracebacks
from typing import TYPE_CHECKING, Any

from bandog.errors import JobAborted
from bandog.outcome import Cancelled, Completed, Failed, Interrupted, OutcomeUnknown, Release, Snooze

if TYPE_CHECKING:
    from bandog._core import CancellationToken
    from bandog.outcome import Report

__all__ = ["as_report", "failure", "is_obedient", "of_error", "readable", "stopped"]

_REPORTS = (Completed, Failed, Cancelled, OutcomeUnknown, Snooze, Release)


def as_report(value: Any) -> Report:
    """What an executor returned, as a report."""
    if value is None:
        return Completed()
    if isinstance(value, _REPORTS):
        return value
    if isinstance(value, Interrupted):
        return Failed("the executor returned Interrupted, which only recovery may record", retry=False)
    return Failed(
        f"the executor returned {type(value).__name__}, which is no outcome: return Completed(result) to keep a result",
        retry=False,
    )


def readable(report: Report, error: BaseException) -> Report:
    """In place of a report that raised when it was read. What is unknown stays unknown; the rest is a final failure."""
    reason = failure(error).reason
    if isinstance(report, OutcomeUnknown):
        return OutcomeUnknown(f"evidence not storable: {reason}")
    return Failed(f"the outcome cannot be recorded: {reason}", retry=False)


def failure(error: BaseException) -> Failed:
    """The failure that an exception means: its type, message and where it was raised. No frame is kept alive."""
    try:
        summary = "".join(tracebacks.format_exception_only(error)).strip()
        frames = tracebacks.extract_tb(error.__traceback__)
        where = f" (at {frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""
    except BaseException:  # noqa: BLE001 - a __str__ that raises must not cost the job its outcome
        summary, where = type(error).__name__, ""
    return Failed(f"{summary}{where}")


def of_error(error: BaseException, token: CancellationToken) -> Report:
    """The report that an exception means."""
    return stopped(token) if is_obedient(error, token) else failure(error)


def is_obedient(error: BaseException, token: CancellationToken) -> bool:
    """Whether an executor raised that it stopped as it was told: :class:`JobAborted`, for the token's own reason.

    A coroutine's ``CancelledError`` says so too where the token was aborted; that is for those who cancel coroutines.
    """
    return isinstance(error, JobAborted) and token.reason == error.reason


def stopped(token: CancellationToken) -> Report:
    """The report of an executor that stopped because its token was aborted, and says no more than that."""
    if token.reason == "cancel_requested":
        return Cancelled(token.detail)
    if token.reason == "shutdown":
        return Release()
    if token.reason == "timeout":
        return Failed("the job took longer than its timeout, and was stopped")
    return Failed(f"the job was stopped: {token.reason}")  # the lease is lost, and nobody records this
