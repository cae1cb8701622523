"""Comparisons of the store with the rules. Each says which job, and what both sides think of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import life_cycle
from fix_store import ClockedStore
from life_cycle import LifeCycle, Mentions, Stored, canonical

import bandog

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def when(micros: int | None) -> datetime | None:
    return None if micros is None else EPOCH + micros * MICROSECOND


def since_epoch(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND


def text_agrees(expected: Any, actual: str | None) -> bool:
    if isinstance(expected, Mentions):
        return actual is not None and all(word in actual for word in expected.words)
    return expected == actual


def content_of(outcome: Any) -> Any:
    if isinstance(outcome, bandog.Completed):
        return canonical(outcome.result)
    if isinstance(outcome, bandog.OutcomeUnknown):
        return canonical(outcome.evidence)
    return outcome.reason


def content_agrees(expected: life_cycle.Settled, outcome: Any) -> bool:
    return outcome.kind == expected.kind and text_agrees(expected.content, content_of(outcome))


def record_agrees(rules: LifeCycle, job: Stored, record: bandog.JobRecord) -> None:
    lease, settled = job.lease, job.settled
    worker = lease.worker if lease else settled.worker if settled else None
    expected = {
        "job_id": job.job_id,
        "queue": job.content.queue,
        "lane": job.content.lane,
        "priority": job.content.priority,
        "payload_json": job.content.payload,
        "max_attempts": job.content.max_attempts,
        "max_recoveries": job.content.max_recoveries,
        "admitted_at": when(job.admitted_at),
        "state": job.state,
        "attempts": job.attempts,
        "given_back": job.given_back,
        "charged": job.charged,
        "recoveries": job.recoveries,
        "available_at": when(job.available_at),
        "worker": worker,
        "claimed_at": when(lease.claimed_at) if lease else None,
        "cancel_requested_at": when(lease.cancel_requested_at) if lease else None,
        "cancel_reason": lease.cancel_reason if lease else None,
        "settled_at": when(settled.at) if settled else None,
    }
    actual = {name: getattr(record, name) for name in expected}
    assert actual == expected, difference(job, actual, expected)
    end = None if lease is None or lease.until is None else lease.until + rules.wall - rules.uptime
    if lease and lease.until == 0:
        # Another boot: there is no right moment to show, but that it has passed.
        assert record.lease_until <= when(rules.wall), job
    else:
        assert record.lease_until == when(end), (job, record.lease_until)
    assert text_agrees(job.error, record.error), (job, record.error)
    if settled:
        assert content_agrees(settled, record.outcome), (job, record.outcome)
    else:
        assert record.outcome is None, job


def difference(job: Stored, actual: dict[str, Any], expected: dict[str, Any]) -> str:
    parts = [f"{name}: {actual[name]!r}, not {expected[name]!r}" for name in expected if actual[name] != expected[name]]
    return f"{'; '.join(parts)}; the rules have {job}"


def claim_agrees(job: Stored, claim: bandog.ClaimedJob, error_before: Any) -> None:
    content = job.content
    assert (claim.job_id, claim.attempt, claim.charged, claim.recoveries) == (
        job.job_id,
        job.attempts,
        job.charged,
        job.recoveries,
    )
    assert (claim.queue, claim.lane, claim.priority, claim.payload_json, claim.max_attempts, claim.max_recoveries) == (
        content.queue,
        content.lane,
        content.priority,
        content.payload,
        content.max_attempts,
        content.max_recoveries,
    )
    assert (claim.admitted_at, claim.claimed_at) == (when(job.admitted_at), when(job.lease.claimed_at))
    assert text_agrees(error_before, claim.last_error), (job, claim.last_error)


def wake_agrees(rules: LifeCycle, actual: datetime | None) -> None:
    expected = rules.next_wake()
    if any(job.lease.until == 0 for job in rules.in_state("running")):
        assert actual <= when(rules.wall), (actual, when(rules.wall))
    else:
        assert actual == when(expected), (actual, when(expected))


def stats_agree(rules: LifeCycle, stats: bandog.Stats, bound: int) -> None:
    names = {job.content.queue for job in rules.jobs.values() if job.state != "settled"}
    assert set(stats.queues) == names
    for name, found in stats.queues.items():
        queued = [job for job in rules.in_state("queued") if job.content.queue == name]
        due = [job.available_at for job in queued if job.available_at <= rules.wall]
        running = [job for job in rules.in_state("running") if job.content.queue == name]
        assert (found.queued, found.due, found.running) == (min(len(queued), bound), min(len(due), bound), len(running))
        assert found.oldest_due == when(min(due, default=None))
    settled = [job.settled.kind for job in rules.in_state("settled")]
    counted = {kind: min(settled.count(kind), bound) for kind in life_cycle.OUTCOMES}
    assert {kind: count for kind, count in stats.outcomes.items() if count} == {
        kind: count for kind, count in counted.items() if count
    }


PLACES = """
    SELECT 'queued', number, job_id FROM bandog_ready LEFT JOIN bandog_job USING (number)
    UNION ALL SELECT 'running', number, job_id FROM bandog_lease LEFT JOIN bandog_job USING (number)
    UNION ALL SELECT 'settled', number, job_id FROM bandog_outcome LEFT JOIN bandog_job USING (number)
    UNION ALL SELECT 'admitted', number, job_id FROM bandog_job
    ORDER BY 1, 2
"""


def tables_agree(rules: LifeCycle, store: ClockedStore) -> None:
    """Each job in exactly one table, through a connection that is none of ours; in a file, another SQLite library."""
    found: dict[str, list[str]] = {"queued": [], "running": [], "settled": [], "admitted": []}
    for place, _, job_id in store.execute(PLACES):
        found[place].append(job_id)
    assert found.pop("admitted") == [job.job_id for job in rules.by_admission()]
    for state, there in found.items():
        assert there == [job.job_id for job in rules.in_state(state)], state
    bounds = store.execute("SELECT queue, lane, most FROM bandog_lane_limit")
    limits = {(queue, lane): most for queue, lane, most in bounds}
    assert limits == rules.limits
