"""What all rules of the machine stand on: the store, the handles, the clock, crashes, and the invariants.

The store is one of :mod:`fix_store`; :mod:`on_files` and :mod:`on_servers` say which, and have the rules that are about
their kind of store alone.
"""

from datetime import timedelta
from typing import Any, NamedTuple

from agreement import record_agrees, since_epoch, stats_agree, tables_agree, wake_agrees
from fix_store import ClockedStore
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from life_cycle import RECOVERED_PER_CLAIM, SECOND, LifeCycle, Stored, micros

import bandog

# Few of everything, so that operations meet each other often.
JOB_IDS = tuple(f"j{number}" for number in range(8))
QUEUES = ("mail", "default")
LANES = ("default", "acme", "zeta")
HANDLES = 3

job_ids = st.sampled_from(JOB_IDS)
handles = st.integers(0, HANDLES - 1)
picks = st.integers(0, 30)
leases = st.sampled_from([0.5, 1, 10, timedelta(seconds=60)])
moves = st.sampled_from([0.000_001, 0.5, 1, 5, 30, 60, 200])
edges = st.sampled_from([-1, 0, 1])


class Held(NamedTuple):
    """A claim that some worker had at some time, as it remembers it."""

    claim: bandog.ClaimedJob
    job_id: str
    token: str
    number: int


class Machine(RuleBasedStateMachine):
    refusal_of_a_probe: type[bandog.BandogError]
    """What a runtime with a liveness probe is told beside one with leases."""

    def __init__(self) -> None:
        super().__init__()
        self.store = self.open_store()
        self.queues: list[Any] = [self.store.open() for _ in range(HANDLES)]
        # A fake clock starts one hour after its boot.
        self.rules = LifeCycle(wall=since_epoch(self.store.now()), uptime=3600 * SECOND)
        self.held: list[Held] = []
        self.steps = 0

    def open_store(self) -> ClockedStore:
        """An empty one, whose clock is at its start."""
        raise NotImplementedError

    def teardown(self) -> None:
        self.queues_close()
        self.store.stop()

    def queues_close(self) -> None:
        for queue in self.queues:
            if queue is not None:
                queue.close()

    # What the rules share

    def job(self, job_id: str) -> Stored | None:
        return self.rules.jobs.get(job_id)

    def some_id(self, pick: int, state: str | None = None) -> str:
        """The id of a job, in that state if there is one; now and then of one that may not be there."""
        jobs = self.rules.in_state(state) if state else self.rules.by_admission()
        return jobs[pick % len(jobs)].job_id if jobs and pick else JOB_IDS[pick % len(JOB_IDS)]

    def has_held(self) -> bool:
        return bool(self.held)

    def remember(self, claim: bandog.ClaimedJob) -> None:
        self.held.append(Held(claim, claim.job_id, claim.lease_token, self.rules.jobs[claim.job_id].number))
        del self.held[:-40]

    def recall(self, pick: int) -> Held:
        """A claim of some time, the latest first."""
        return self.held[-1 - pick % len(self.held)]

    def is_gone(self, held: Held) -> bool:
        """Its job was purged, whatever may have its id by now."""
        job = self.job(held.job_id)
        return job is None or job.number != held.number

    def recovers(self, answer: tuple[Any, Any], limit: int) -> None:
        """The longest lost claims went back, or were interrupted. Which of those that end in one moment is free."""
        lost = self.rules.lost()
        chosen = [self.rules.jobs[job_id] for job_id in (*answer[0], *answer[1])]
        ends = [job.lease.until for job in chosen]
        assert sorted(ends) == [job.lease.until for job in lost[:limit]], (answer, lost)
        assert all(job in lost for job in chosen)
        recovered, interrupted = self.rules.recover(chosen)
        assert (recovered, interrupted) == (list(answer[0]), list(answer[1]))

    def lost_to_a_claim(self) -> list[Stored]:
        """Of the lost claims those that a claim recovers first."""
        return self.rules.lost()[:RECOVERED_PER_CLAIM]

    def lasting(self, lease: Any) -> Any:
        """A lease of that length, or of one that suits the store."""
        return lease

    # Time

    @rule(by=moves)
    def time_passes(self, by: float) -> None:
        self.store.advance(by)
        self.rules.passes(micros(by))

    @rule(pick=picks, edge=edges)
    def time_passes_to_an_edge(self, pick: int, edge: int) -> None:
        """To the moment at which a lease ends or a job is due, or one microsecond beside it."""
        rules = self.rules
        waits = {job.available_at - rules.wall for job in rules.in_state("queued")}
        waits |= {job.lease.until - rules.uptime for job in rules.in_state("running") if job.lease.until is not None}
        ahead = sorted(wait + edge for wait in waits if wait + edge > 0)
        if ahead:
            by = ahead[pick % len(ahead)]
            self.store.advance(by / SECOND)
            rules.passes(by)

    # Crashes

    @rule(ended=st.sets(handles, min_size=1), close=st.booleans())
    def processes_end(self, ended: set[int], close: bool) -> None:
        """Their handles are closed, or only dropped; all of them at once, or some."""
        for handle in ended:
            if close:
                self.queues[handle].close()
            # Opened again below: where all have ended, the store is found with nobody there.
            self.queues[handle] = None
        for handle in ended:
            self.queues[handle] = self.store.open()

    # What holds after every step

    @invariant()
    def every_job_is_as_the_rules_say(self) -> None:
        self.steps += 1
        queue = self.queues[self.steps % HANDLES]
        rules = self.rules
        page = queue.jobs(limit=100)
        assert page.next is None
        assert [record.job_id for record in page] == [job.job_id for job in rules.by_admission()]
        for record in page:
            record_agrees(rules, rules.jobs[record.job_id], record)
        alone = JOB_IDS[self.steps % len(JOB_IDS)]
        if alone in rules.jobs:
            record_agrees(rules, rules.jobs[alone], queue.read(alone))
        pending = any(job.state != "settled" for job in rules.jobs.values())
        assert queue.has_pending_work() == pending
        wake_agrees(rules, queue.next_wake())
        stats_agree(rules, queue.stats(), 10_000)
        dead = [job.job_id for job in rules.dead_letters()]
        assert [record.job_id for record in queue.dead_letters()] == dead

    @invariant()
    def every_job_is_in_one_table(self) -> None:
        tables_agree(self.rules, self.store)
