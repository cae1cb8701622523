"""Rules of runtimes: ticks with executors that return, raise, interfere or die."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from agreement import claim_agrees, content_agrees
from hypothesis import strategies as st
from hypothesis.stateful import rule
from life_cycle import Mentions, Stored, micros
from machine import Held, Machine, handles, leases
from working import Working, reports, subscriptions

import bandog
from bandog import Completed, Failed, Interrupted

PUT_BACK = {"retried", "snoozed", "released"}


class Act(NamedTuple):
    """What an executor does: before its report, and its report, or the exception that it raises."""

    before: str
    report: Any


acts = st.builds(
    Act,
    before=st.sampled_from(["", "", "settles", "is cancelled", "is killed", "is killed"]),
    report=reports | st.sampled_from([None, 5, Interrupted("mine"), ValueError("boom"), SystemExit("boom")]),
)


def as_the_rules_see_it(answer: Any) -> Any:
    if answer is None:
        return Completed()
    if isinstance(answer, BaseException):
        return Failed(Mentions((type(answer).__name__, "boom")))
    if isinstance(answer, Interrupted):
        return Failed(Mentions(("Interrupted",)), retry=False)
    if isinstance(answer, int):
        return Failed(Mentions(("int", "no outcome")), retry=False)
    return answer


class Running(Working, Machine):
    @rule(handle=handles, queues=subscriptions, lease=leases, sequence=st.lists(acts, min_size=1, max_size=3))
    def a_runtime_with_leases_ticks(self, handle: int, queues: Any, lease: Any, sequence: list[Act]) -> None:
        lease = self.lasting(lease)
        with self.runtime(handle, queues=queues, lease=lease, worker="dog") as dog:
            self.rules.adopt(micros(lease))
            with pytest.raises(self.refusal_of_a_probe):
                self.runtime(0, is_alive=lambda _: True)
            for act in sequence:
                if not self.ticks(dog, handle, act, queues, micros(lease)):
                    break

    def runtime(self, handle: int, **options: Any) -> Any:
        return self.store.watchdog(self.queues[handle], self.executor(handle), **options)

    def executor(self, handle: int) -> Callable[..., Any]:
        """What the tick runs: it looks at the claim as the rules have it, then acts."""

        def execute(claim: bandog.ClaimedJob, token: bandog.CancellationToken) -> Any:
            queue, rules = self.queues[handle], self.rules
            job = rules.jobs[claim.job_id]
            self.began = claim
            self.start(job, claim)
            before, report = self.act
            if before == "settles":
                assert queue.acknowledge(claim, "early").kind == rules.settle(job, claim.lease_token, EARLY).kind
            elif before == "is cancelled":
                answer = queue.cancel(claim.job_id, "by itself")
                assert (answer.kind, answer.outcome) == rules.cancel(job, "by itself")
                assert token.wait(10)
                assert (token.reason, token.detail) == ("cancel_requested", "by itself")
            elif before == "is killed":
                queue.close()
            if isinstance(report, BaseException):
                # A new one each time: a kept one would keep the tracebacks of all its times.
                raise type(report)(*report.args)
            return report

        return execute

    def start(self, job: Stored, claim: bandog.ClaimedJob) -> None:
        """In the executor: recovery and the claim itself have happened, and the record shows them."""
        dead, lost, _ = self.expected_before
        recovered, interrupted = self.rules.recover(self.lost_to_a_claim())
        self.expected_before = (dead + recovered, lost + interrupted, self.expected_before[2])
        due = self.rules.due(self.subscribed)
        assert due
        assert due[0] is job
        self.rules.claim(job, claim.lease_token, self.worker, self.seconds)
        claim_agrees(job, claim, job.error)
        self.remember(claim)

    def probe(self) -> None:
        """What a tick does first, where a liveness probe stands for leases."""
        raise NotImplementedError

    def ticks(self, dog: Any, handle: int, act: Act, queues: Any, seconds: int | None) -> bool:
        """One tick. False where the process died in it."""
        rules = self.rules
        self.act, self.seconds, self.worker = act, seconds, "prober" if seconds is None else "dog"
        self.subscribed = [queues] if isinstance(queues, str) else queues
        self.began = self.probed = None
        self.expected_probe, self.expected_before = None, ([], [], None)
        if seconds is None:
            self.probe()
        try:
            tick = dog.tick()
        except bandog.QueueClosed:
            assert act.before == "is killed"
            assert self.began
            self.queues[handle] = self.store.open()
            return False
        if self.began is None:
            # Nothing was run: then nothing was due, once what was lost had been recovered.
            dead, lost, unknown = self.expected_before
            recovered, interrupted = rules.recover(self.lost_to_a_claim())
            self.expected_before = (dead + recovered, lost + interrupted, unknown)
            assert rules.due(self.subscribed) == []
            assert (tick.job_id, tick.outcome) == (None, None)
            assert tick.kind == ("idle" if unknown is None else "liveness_unknown")
        else:
            self.report_agrees(tick, as_the_rules_see_it(act.report))
        dead, lost, unknown = self.expected_before
        assert self.probed == self.expected_probe
        assert (sorted(tick.recovered), sorted(tick.interrupted), tick.unknown) == (sorted(dead), sorted(lost), unknown)
        return True

    def report_agrees(self, tick: bandog.Tick, report: Any) -> None:
        claim = self.began
        job = self.rules.jobs[claim.job_id]
        answer = self.rules.settle(job, claim.lease_token, report)
        assert tick.job_id == claim.job_id
        assert tick.kind == (answer.kind if answer.kind in PUT_BACK else "settled")
        if tick.kind == "settled":
            assert content_agrees(job.settled, tick.outcome), (job, tick)
        else:
            assert tick.outcome is None
            # A tick does not say when the job is due, so a jittered wait is read.
            self.waits_as_read(job, answer)

    def waits_as_read(self, job: Stored, answer: Any) -> None:
        if answer.kind == "released":
            return
        settlement = self.queues[0].settle((job.job_id, self.began.lease_token), Completed())
        self.answers(Held(self.began, job.job_id, self.began.lease_token, job.number), answer, settlement)


EARLY = Completed("early")
