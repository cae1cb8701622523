"""Budgets: after every sequence of failures, lost claims, snoozes and releases the job is where the rules say.

The rules are written out once more below, from the words of the design: charged = attempts - attempts given back; with
``max_attempts=A`` a failed or lost claim is put back while charged < A, a lost one also only while recoveries <
``max_recoveries`` if that is set; without ``max_attempts`` a failure is final, and lost claims are put back
``max_recoveries`` times, or once if that is unset.
"""

import itertools
from dataclasses import dataclass

import pytest
from steps import LEASE

from bandog import Failed, Job, Release, Snooze

EVENTS = ("failed", "lost", "snoozed", "released")
LENGTH = 4
REPORTS = {"failed": Failed("why", retry_in=0), "snoozed": Snooze(0), "released": Release()}
PUT_BACK = {"failed": "retried", "snoozed": "snoozed", "released": "released"}


@dataclass
class Expected:
    """One job, as the rules have it."""

    max_attempts: int | None
    max_recoveries: int | None
    attempts: int = 0
    given_back: int = 0
    recoveries: int = 0
    outcome: str | None = None

    def happens(self, event: str) -> None:
        """A claim is made and ends with ``event``."""
        self.attempts += 1
        charged = self.attempts - self.given_back
        if event in ("snoozed", "released"):
            self.given_back += 1
        elif event == "failed":
            if self.max_attempts is None or not charged < self.max_attempts:
                self.outcome = "failed"
        elif self.max_attempts is None:
            allowed = 1 if self.max_recoveries is None else self.max_recoveries
            self.lost(put_back=self.recoveries < allowed)
        else:
            within = self.max_recoveries is None or self.recoveries < self.max_recoveries
            self.lost(put_back=charged < self.max_attempts and within)

    def lost(self, *, put_back: bool) -> None:
        if put_back:
            self.recoveries += 1
        else:
            self.outcome = "interrupted"

    def agrees_with(self, record) -> bool:
        return (record.attempts, record.given_back, record.recoveries, record.charged, record.state) == (
            self.attempts,
            self.given_back,
            self.recoveries,
            self.attempts - self.given_back,
            "queued" if self.outcome is None else "settled",
        ) and self.outcome == (record.outcome and record.outcome.kind)


@pytest.mark.parametrize("max_recoveries", [None, 0, 1, 2])
@pytest.mark.parametrize("max_attempts", [None, 1, 2, 3])
def test_every_sequence_ends_where_the_budgets_say(store, queue, max_attempts, max_recoveries):
    """One job per sequence; all of them take each step together."""
    jobs = {"-".join(events): events for events in itertools.product(EVENTS, repeat=LENGTH)}
    expected = {job_id: Expected(max_attempts, max_recoveries) for job_id in jobs}
    queue.ingest_many(Job(job_id=job_id, max_attempts=max_attempts, max_recoveries=max_recoveries) for job_id in jobs)
    for step in range(LENGTH):
        claims = queue.claim(limit=len(jobs), lease=LEASE)
        alive = {job_id for job_id, rules in expected.items() if rules.outcome is None}
        assert {claim.job_id for claim in claims} == alive
        reports = []
        for claim in claims:
            rules, event = expected[claim.job_id], jobs[claim.job_id][step]
            rules.happens(event)
            assert claim.attempt == rules.attempts
            if event != "lost":
                reports.append((claim, REPORTS[event], rules.outcome or PUT_BACK[event]))
        settlements = queue.settle_many((claim, report) for claim, report, _ in reports)
        assert [settlement.kind for settlement in settlements] == [kind for _, _, kind in reports]
        store.advance(LEASE + 1)
        recovered, interrupted = queue.recover(limit=len(jobs))
        lost = {job_id for job_id in alive if jobs[job_id][step] == "lost"}
        assert set(interrupted) == {job_id for job_id in lost if expected[job_id].outcome}
        assert set(recovered) == lost - set(interrupted)
        for job_id in alive:
            assert expected[job_id].agrees_with(queue.read(job_id)), (job_id, step)


def test_every_job_ends_after_as_many_charged_attempts_as_it_has(store, queue):
    queue.enqueue(job_id="poison", max_attempts=3)
    for attempt in (1, 2, 3):
        (claim,) = queue.claim(lease=LEASE)
        assert claim.attempt == attempt
        store.advance(LEASE + 1)
    assert queue.claim() == []
    record = queue.read("poison")
    assert (record.outcome.kind, record.attempts, record.recoveries) == ("interrupted", 3, 2)
    assert "lost" in record.outcome.reason


def test_a_failure_after_a_recovery_counts_both(store, queue):
    queue.enqueue(job_id="a", max_attempts=2)
    queue.claim(lease=LEASE)
    store.advance(LEASE + 1)
    (claim,) = queue.claim(lease=LEASE)
    assert queue.fail(claim, "the second of two").kind == "failed"


def test_attempt_numbers_never_go_down_and_are_never_used_twice(store, queue):
    queue.enqueue(job_id="a", max_attempts=50)
    seen = []
    for report in (Release(), Snooze(0), None, Release(), Failed("x", retry_in=0), None, Snooze(0)) * 4:
        (claim,) = queue.claim(lease=LEASE)
        seen.append(claim.attempt)
        if report is None:
            store.advance(LEASE + 1)
        else:
            queue.settle(claim, report)
    assert seen == list(range(1, len(seen) + 1))


def test_a_release_or_snooze_never_uses_a_budget_up(queue):
    queue.enqueue(job_id="a", max_attempts=1, max_recoveries=0)
    for report in (Release(), Snooze(0)) * 10:
        (claim,) = queue.claim(lease=LEASE)
        assert claim.charged == 1
        assert queue.settle(claim, report).kind in {"released", "snoozed"}
    (claim,) = queue.claim(lease=LEASE)
    assert (claim.attempt, claim.charged) == (21, 1)
    assert queue.fail(claim, "the only one").kind == "failed"


def test_only_a_claim_that_holds_gives_its_attempt_back(store, queue):
    queue.enqueue(job_id="a", max_attempts=2)
    (lost,) = queue.claim(lease=LEASE)
    store.advance(LEASE + 1)
    assert [answer.kind for answer in queue.settle_many([(lost, Release()), (lost, Snooze(0))])] == ["stale", "stale"]
    (claim,) = queue.claim(lease=LEASE)
    assert [answer.kind for answer in queue.settle_many([(lost, Release()), (lost, Snooze(0))])] == ["stale", "stale"]
    assert (claim.attempt, claim.charged) == (2, 2)
    assert queue.read("a").given_back == 0
