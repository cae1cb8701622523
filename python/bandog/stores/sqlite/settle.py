"""Settle, as ``rust/store/sqlite/settle.rs``: end claims with what their holders report.

Unlike there, a claim that does not hold raises: what the caller has written in the same transaction must not be
committed.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any

from bandog.stores import transition
from bandog.stores.records import instant
from bandog.stores.sqlite.beginning import begin
from bandog.stores.sqlite.rows import put_ready
from bandog.stores.transition import Backoff, Counters, Report, Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from bandog.stores.clock import Instants
    from bandog.stores.connections import Connection
    from bandog.stores.driving import Steps
    from bandog.stores.elsewhere import Claim, Home

__all__ = ["settle"]

Settled = tuple[str, "datetime | None"]


def settle(
    connection: Connection,
    home: Home,
    reports: Sequence[tuple[Claim, Report]],
    refuse: Callable[[str, str], None],
) -> Steps[list[Settled]]:
    """End claims: per claim a word, and the time at which a job that was put back is due.

    Args:
        connection: the caller's.
        home: where the queue's jobs are.
        reports: claims and what became of them.
        refuse: raises for the words ``stale`` and ``not_found``, given with the job's id.
    """
    now = yield from begin(connection, home)
    if len(reports) > 1:
        # All of them hold, or nothing is changed.
        for claim, _ in reports:
            number = yield from _number(connection, claim, refuse)
            if not (yield partial(connection.query, "find_claim", number, claim.lease_token, now.uptime)):
                word, _ = yield from _recorded(connection, number, claim.lease_token)
                refuse(word, claim.job_id)
    answers: list[Settled] = []
    for claim, report in reports:
        number = yield from _number(connection, claim, refuse)
        answer = yield from _settle_one(connection, now, number, claim.lease_token, report)
        refuse(answer[0], claim.job_id)
        answers.append(answer)
    return answers


def _number(connection: Connection, claim: Claim, refuse: Callable[[str, str], None]) -> Steps[int]:
    if claim.number is not None:
        return claim.number
    found = yield partial(connection.query, "find_job", claim.job_id)
    if not found:
        refuse("not_found", claim.job_id)
    ((number,),) = found
    return int(number)


def _settle_one(connection: Connection, now: Instants, number: int, token: str, report: Report) -> Steps[Settled]:
    found = yield partial(connection.query, "find_claim", number, token, now.uptime)
    if not found:
        return (yield from _recorded(connection, number, token))
    ((worker, attempts, given_back, recoveries, cancel_requested_at, cancel_reason),) = found
    yield partial(connection.change, "settle", number, token, now.uptime)
    place: tuple[str, str, int] | None = None
    rules = Rules()
    if transition.needs_rules(report):
        ((queue, lane, priority, max_attempts, max_recoveries, *backoff),) = yield partial(
            connection.query, "settle_job", number
        )
        place = queue, lane, priority
        rules = Rules(max_attempts, max_recoveries, None if backoff[0] is None else Backoff(*backoff))
    following = transition.after_report(
        report,
        Counters(attempts, given_back, recoveries),
        rules,
        cancel_reason or "",
        is_cancel_asked=cancel_requested_at is not None,
        chance=random.random(),  # noqa: S311 - it spreads retries, and guards nothing
    )
    if isinstance(following, transition.Settle):
        yield partial(
            connection.change,
            "put_outcome",
            number,
            following.kind,
            now.wall,
            worker,
            *following.counters,
            following.result,
            following.error,
            following.evidence,
            token,
            None,  # the report is the kind itself
        )
        return following.kind, None
    assert place is not None  # noqa: S101 - only reports that need the rules put a job back
    last = token, transition.record(following)
    due = yield from put_ready(
        connection, now, number, place, following.counters, delay=following.delay, last=last, error=following.error
    )
    return following.answer, None if following.answer == "released" else instant(due)


def _recorded(connection: Connection, number: int, token: str) -> Steps[Settled]:
    """No such claim now. Did this token end it earlier? Then the answer that was lost is given again."""
    found: list[tuple[Any, ...]] = yield partial(connection.query, "settle_recorded", number, token)
    if not found:
        return "stale", None
    word, available_at = transition.recorded(*found[0])
    return word, instant(available_at)
