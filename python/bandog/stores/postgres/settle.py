"""Settle, as ``rust/store/postgres/settle.rs``, in a transaction of the caller's: end claims with what their holders
report.

Unlike there, a claim that another transaction holds locked is waited for, for as long as the connection's lock timeout
allows; and one that does not hold raises: what the caller has written in the same transaction must not be committed.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from bandog.stores import transition
from bandog.stores.postgres.beginning import begin
from bandog.stores.postgres.rows import moment, read
from bandog.stores.records import instant, microseconds
from bandog.stores.transition import Backoff, Counters, Report, Rules, Settle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from bandog.stores.connections import Connection
    from bandog.stores.driving import Steps
    from bandog.stores.elsewhere import Claim, Schema

__all__ = ["settle"]

Settled: TypeAlias = "tuple[str, datetime | None]"
Key: TypeAlias = tuple[int, str]
"""The order number of a job, and the token of a claim on it."""


class _Item(NamedTuple):
    """One report, and whom it is about. ``key`` is ``None`` where no claim can be of that name."""

    key: Key | None
    job_id: str
    report: Report


class _Held(NamedTuple):
    """What deciding about a claim takes."""

    worker: str
    counters: Counters
    is_cancel_asked: bool
    cancel_reason: str | None
    rules: Rules


def settle(
    connection: Connection,
    home: Schema,
    reports: Sequence[tuple[Claim, Report]],
    refuse: Callable[[str, str], None],
) -> Steps[list[Settled]]:
    """End claims: per claim a word, and the time at which a job that was put back is due.

    All of them hold, or were ended by their own tokens before; or nothing is changed.

    Args:
        connection: the caller's.
        home: where the queue's jobs are.
        reports: claims and what became of them.
        refuse: raises for the words ``stale`` and ``not_found``, given with the job's id.
    """
    yield from begin(connection, home)
    items = yield from _items(connection, reports, refuse)
    if len(items) == 1 and items[0].key is not None and not _has_rules(items[0].report):
        settled = yield from _settle_plain(connection, items[0].key, items[0].report)
        if settled is not None:
            return [settled]
        held: dict[Key, _Held] = {}
    else:
        held = yield from _lock(connection, items)
    answers = yield from _recorded(connection, items, held)
    for item in items:
        if item.key not in held:
            refuse(answers.get(item.key, ("stale", None))[0], item.job_id)
    # Of two reports about one claim the first one ends it, and answers for both.
    first = {item.key: item for item in reversed(items) if item.key in held}
    answers |= yield from _change(connection, {key: (held[key], first[key]) for key in held})
    return [answers[item.key] for item in items]


def _items(
    connection: Connection, reports: Sequence[tuple[Claim, Report]], refuse: Callable[[str, str], None]
) -> Steps[list[_Item]]:
    """Find the jobs that are known by their id alone."""
    asked = sorted({claim.job_id for claim, _ in reports if claim.number is None and _is_storable(claim.job_id)})
    found: dict[str, int] = dict((yield partial(connection.query, "find_jobs", asked))) if asked else {}
    items: list[_Item] = []
    for claim, report in reports:
        number = found.get(claim.job_id) if claim.number is None else claim.number
        if number is None:
            refuse("not_found", claim.job_id)
            continue
        key = (number, claim.lease_token) if _is_storable(claim.lease_token) else None
        items.append(_Item(key, claim.job_id, report))
    return items


def _is_storable(text: str) -> bool:
    """Whether PostgreSQL could hold this text. What cannot be stored is nowhere to be found."""
    return "\0" not in text


def _has_rules(report: Report) -> bool:
    return report.kind not in {"completed", "outcome_unknown"}


def _settle_plain(connection: Connection, key: Key, report: Report) -> Steps[Settled | None]:
    """End a claim with an outcome that takes no rule, in one statement; ``None`` where it does not hold."""
    number, token = key
    result, evidence = (report.text, None) if report.kind == "completed" else (None, report.text)
    rows = yield partial(connection.query, "settle", [number], [token], [report.kind], [result], [None], [evidence])
    return (report.kind, None) if rows else None


def _lock(connection: Connection, items: Sequence[_Item]) -> Steps[dict[Key, _Held]]:
    """Wait for the claims, and say which of them hold."""
    # Rows are locked in this order, by everybody.
    keys = sorted({item.key for item in items if item.key is not None})
    rows: list[tuple[Any, ...]] = []
    if keys:
        rows = yield partial(
            connection.query, "settle_wait", [number for number, _ in keys], [token for _, token in keys]
        )
    held: dict[Key, _Held] = {}
    for number, token, worker, *counters, is_cancel_asked, reason, most, recoveries, base, cap, jitter in rows:
        backoff = None if base is None else Backoff(base, cap, jitter)
        rules = Rules(most, recoveries, backoff)
        held[number, token] = _Held(worker, Counters(*counters), is_cancel_asked, reason, rules)
    return held


def _recorded(
    connection: Connection, items: Sequence[_Item], held: dict[Key, _Held]
) -> Steps[dict[Key | None, Settled]]:
    """Claims that do not hold. Did their tokens end them earlier? Then the answer that was lost is given again."""
    missing = {item.key: item.job_id for item in items if item.key is not None and item.key not in held}
    answers: dict[Key | None, Settled] = {}
    for (number, token), job_id in missing.items():
        rows: list[tuple[Any, ...]] = yield partial(connection.query, "settle_recorded", [number], [token])
        for _, report, available_at, attempts, is_held in rows:
            if not is_held and report is not None:
                due = yield from _due(connection, available_at, job_id)
                word, due = transition.recorded(report, due, attempts)
                answers[number, token] = word, instant(due)
    return answers


def _change(connection: Connection, decided: dict[Key, tuple[_Held, _Item]]) -> Steps[dict[Key | None, Settled]]:
    """What the reports make of claims that are locked."""
    answers: dict[Key | None, Settled] = {}
    outcomes: list[tuple[Any, ...]] = []
    ready: list[tuple[Any, ...]] = []
    put_back: dict[int, tuple[Key, str, str]] = {}
    for key, (held, item) in decided.items():
        number, token = key
        following = transition.after_report(
            item.report,
            held.counters,
            held.rules,
            held.cancel_reason or "",
            is_cancel_asked=held.is_cancel_asked,
            chance=random.random(),  # noqa: S311 - it spreads retries, and guards nothing
        )
        if isinstance(following, Settle):
            kind, counters, *texts = following
            # No report beside it: it is the kind itself.
            outcomes.append((number, kind, held.worker, *counters, *texts, token, None))
            answers[key] = kind, None
        else:
            last = token, transition.record(following)
            ready.append((number, float(following.delay), *following.counters, *last, following.error))
            put_back[number] = key, following.answer, item.job_id
    if decided:
        yield partial(connection.change, "take_lease", [number for number, _ in decided])
    if outcomes:
        yield partial(connection.change, "put_outcome", *_columns(outcomes))
    if ready:
        rows: list[tuple[Any, ...]] = yield partial(connection.query, "put_ready", *_columns(ready))
        for number, available_at in rows:
            key, answer, job_id = put_back[number]
            due = None if answer == "released" else (yield from _due(connection, available_at, job_id))
            answers[key] = answer, instant(due)
    return answers


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _due(connection: Connection, available_at: Any, job_id: str) -> Steps[int | None]:
    """When a queued job is due, given what the connection made of that."""
    due = moment(available_at)
    if due is None and available_at is not None:
        record = (yield from read(connection, [job_id])).get(job_id)
        due = None if record is None or record.available_at is None else microseconds(record.available_at)
    return due
