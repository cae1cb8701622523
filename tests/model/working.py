"""Rules of workers that pull: claims, renewals, and every report, also late, repeated and with tokens of others."""

import math
from datetime import timedelta
from typing import Any

import pytest
from agreement import claim_agrees, since_epoch
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from life_cycle import Answer, micros
from machine import Held, Machine, handles, leases, picks

import bandog
from bandog import Backoff, Cancelled, Completed, Failed, OutcomeUnknown, Release, Settlement, Snooze

subscriptions = st.sampled_from([None, None, "mail", ["default"], ["default", "mail"], ["mail", "mail", "nowhere"]])
reports = st.sampled_from(
    [
        Completed(),
        Completed({"pages": [1, 2.0, True]}),
        Completed({"unstorable": math.nan}),
        Failed("why"),
        Failed("why at once", retry_in=0),
        Failed("why later", retry_in=timedelta(seconds=7)),
        Failed("why never", retry=False, retry_in=5),
        Failed("why twice", backoff=Backoff(2, timedelta(seconds=5))),
        Failed("why anywhen", backoff=Backoff(10, 30, 0.5)),
        Cancelled(),
        Cancelled("stopped"),
        OutcomeUnknown(),
        OutcomeUnknown({"provider": "no answer"}),
        Snooze(0),
        Snooze(5),
        Snooze(timedelta(seconds=90)),
        Release(),
    ]
)
asked_to_stop = st.sampled_from([None, None, None, "stop", ""])
# How a report names its claim: as the claim, as a pair, with a token of another claim, with one that nobody made.
names = st.sampled_from(["claim", "claim", "pair", "pair", "foreign", "made up"])


class Working(Machine):
    @rule(handle=handles, worker=st.sampled_from(["w-0", "w-1", "w-2"]), queues=subscriptions, limit=st.integers(1, 5))
    def claim_for_long(self, handle: int, worker: str, queues: Any, limit: int) -> None:
        self.claim(handle, worker, queues, limit, 60)

    @rule(
        handle=handles,
        worker=st.sampled_from(["w-0", "w-1", "w-2"]),
        queues=subscriptions,
        limit=st.integers(1, 5),
        lease=leases,
    )
    def claim(self, handle: int, worker: str, queues: Any, limit: int, lease: Any) -> None:
        lease = self.lasting(lease)
        claims = self.queues[handle].claim(worker, queues=queues, limit=limit, lease=lease)
        rules = self.rules
        # No probe is at work outside its own rule, so a user of the pull API alone inherits what one left running.
        rules.adopt(micros(lease))
        rules.recover(self.lost_to_a_claim())
        names = [queues] if isinstance(queues, str) else queues
        due = rules.due(names)[:limit]
        assert [claim.job_id for claim in claims] == [job.job_id for job in due]
        tokens = {claim.lease_token for claim in claims}
        assert len(tokens) <= 1
        assert tokens.isdisjoint(held.token for held in self.held)
        for job, claim in zip(due, claims, strict=True):
            rules.claim(job, claim.lease_token, worker, micros(lease))
            claim_agrees(job, claim, job.error)
            self.remember(claim)

    @precondition(Machine.has_held)
    @rule(handle=handles, pick=picks, lease=leases, as_pair=st.booleans())
    def renew(self, handle: int, pick: int, lease: Any, as_pair: bool) -> None:
        self.renews(handle, pick, self.lasting(lease), as_pair=as_pair)

    def renews(self, handle: int, pick: int, lease: Any, *, as_pair: bool) -> None:
        held = self.recall(pick)
        job, queue = self.job(held.job_id), self.queues[handle]
        name = (held.job_id, held.token) if as_pair else held.claim
        if job is None or (self.is_gone(held) and not as_pair):
            with pytest.raises((bandog.StaleClaim, bandog.JobNotFound)):
                queue.renew(name, lease=lease)
        elif self.rules.holds(job, held.token):
            assert queue.renew(name, lease=lease) == self.rules.renew(job, micros(lease))
        else:
            with pytest.raises(bandog.StaleClaim):
                queue.renew(name, lease=lease)

    @precondition(Machine.has_held)
    @rule(handle=handles)
    def every_token_is_valid_exactly_where_the_rules_say(self, handle: int) -> None:
        for pick in range(len(self.held)):
            held = self.recall(pick)
            job = self.job(held.job_id)
            # A renewal for what was asked for last changes no more than it must.
            seconds = job.lease.seconds / 1_000_000 if job and job.lease and job.lease.seconds else self.lasting(1)
            self.renews(handle, pick, seconds, as_pair=True)

    @rule(handle=handles, limit=st.sampled_from([1, 2, 100]))
    def recover(self, handle: int, limit: int) -> None:
        self.recovers(self.queues[handle].recover(limit), limit)

    # Settling

    @precondition(Machine.has_held)
    @rule(handle=handles, pick=picks, naming=names, report=reports, with_method=st.booleans())
    def settle(self, handle: int, pick: int, naming: str, report: Any, with_method: bool) -> None:
        held = self.recall(pick)
        name, token = self.named(held, naming, pick)
        queue = self.queues[handle]
        expected = self.expected(held, naming, token, report)
        if expected.kind in ("stale", "not_found"):
            error = bandog.StaleClaim if expected.kind == "stale" else bandog.JobNotFound
            with pytest.raises(error) as raised:
                queue.settle(name, report)
            assert raised.value.job_id == held.job_id
        else:
            settlement = with_its_method(queue, name, report) if with_method else queue.settle(name, report)
            self.answers(held, expected, settlement)

    @precondition(Machine.has_held)
    @rule(handle=handles, mix=st.lists(st.tuples(picks, names, reports), min_size=1, max_size=5))
    def settle_many(self, handle: int, mix: list[Any]) -> None:
        calls = [(self.recall(pick), naming, pick, report) for pick, naming, report in mix]
        named = [self.named(held, naming, pick) for held, naming, pick, _ in calls]
        answers = self.queues[handle].settle_many(
            (name, report) for (name, _), (*_, report) in zip(named, calls, strict=True)
        )
        for (held, naming, _, report), (_, token), settlement in zip(calls, named, answers, strict=True):
            expected = self.expected(held, naming, token, report)
            self.answers(held, expected, settlement)

    @precondition(Machine.has_held)
    @rule(handle=handles, pick=st.integers(0, 3), report=reports)
    def settle_a_claim_of_late(self, handle: int, pick: int, report: Any) -> None:
        """One of the claims that were made last, which mostly holds."""
        self.settle(handle, pick, "claim", report, with_method=True)

    @rule(
        handle=handles,
        limit=st.integers(1, 3),
        sequence=st.lists(st.tuples(st.none() | reports, asked_to_stop, st.booleans()), min_size=2, max_size=6),
    )
    def a_worker_goes_on(self, handle: int, limit: int, sequence: list[Any]) -> None:
        """It claims and reports in turn, or loses its claim; budgets and back-offs are only used up by many turns."""
        queue = self.queues[handle]
        for report, asked, waits in sequence:
            before = len(self.held)
            self.claim(handle, "w-3", None, limit, 60)
            if len(self.held) > before:
                if asked:
                    job_id = self.held[-1].job_id
                    answer = queue.cancel(job_id, asked)
                    assert (answer.kind, answer.outcome) == self.rules.cancel(self.job(job_id), asked)
                if report is not None:
                    self.settle(handle, 0, "claim", report, with_method=False)
                self.every_job_is_as_the_rules_say()
            if waits or report is None:
                self.time_passes_to_an_edge(0, 0)

    def named(self, held: Held, naming: str, pick: int) -> tuple[Any, str]:
        if naming == "claim":
            return held.claim, held.token
        token = held.token
        if naming == "foreign":
            token = self.held[pick % len(self.held)].token
        elif naming == "made up":
            token = held.token[:-1]
        return (held.job_id, token), token

    def expected(self, held: Held, naming: str, token: str, report: Any) -> Answer:
        job = self.job(held.job_id)
        if naming == "claim" and self.is_gone(held):
            # The claim names a job that was purged, not the one that has its id by now.
            return Answer("stale")
        return Answer("not_found") if job is None else self.rules.settle(job, token, report)

    def answers(self, held: Held, expected: Answer, settlement: Settlement) -> None:
        assert settlement.kind == expected.kind, (held.job_id, settlement, expected)
        if expected.earliest is None:
            assert settlement.available_at is None, (held.job_id, settlement)
            return
        at = since_epoch(settlement.available_at)
        assert expected.earliest <= at <= expected.latest, (at, expected)
        # Where in its band a jittered wait ends is the store's to say.
        job = self.job(held.job_id)
        if job.state == "queued":
            job.available_at = at


def with_its_method(queue: bandog.Queue, name: Any, report: Any) -> Settlement:
    match report:
        case Completed():
            return queue.acknowledge(name, report.result)
        case Failed():
            backoff = {"backoff": report.backoff}
            if report.backoff and not report.backoff.jitter:
                # The names of the second seed.
                backoff = {"base": report.backoff.base, "cap": report.backoff.cap}
            return queue.fail(name, report.reason, retry=report.retry, retry_in=report.retry_in, **backoff)
        case Cancelled():
            return queue.cancelled(name, report.reason)
        case OutcomeUnknown():
            return queue.outcome_unknown(name, report.evidence)
        case Release():
            return queue.release(name)
    return queue.settle(name, report)
