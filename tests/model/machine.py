"""What all rules of the machine stand on: the file, the handles, the clock, crashes, and the invariants."""

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from agreement import (
    MICROSECOND,
    file_agrees,
    file_is_sound,
    record_agrees,
    since_epoch,
    stats_agree,
    wake_agrees,
    when,
)
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from life_cycle import SECOND, LifeCycle, Stored, micros

import bandog
from bandog.testing import FakeClock

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
steps = st.sampled_from([-86_400, -3600, -60, -5, 5, 60, 3600, 86_400])
edges = st.sampled_from([-1, 0, 1])


class Held(NamedTuple):
    """A claim that some worker had at some time, as it remembers it."""

    claim: bandog.ClaimedJob
    job_id: str
    token: str
    number: int


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="bandog-model-"))
        self.path = self.folder / "jobs.sqlite"
        self.clock = FakeClock()
        self.queues: list[Any] = [self.connect() for _ in range(HANDLES)]
        # A fake clock starts one hour after its boot.
        self.rules = LifeCycle(wall=since_epoch(self.clock.now()), uptime=3600 * SECOND)
        self.held: list[Held] = []
        self.boots = 0
        self.steps = 0

    def connect(self) -> bandog.Queue:
        return bandog.connect(self.path, clock=self.clock)

    def teardown(self) -> None:
        try:
            file_is_sound(self.path)
        finally:
            for queue in self.queues:
                if queue is not None:
                    queue.close()
            shutil.rmtree(self.folder)

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

    # Time

    @rule(by=moves)
    def time_passes(self, by: float) -> None:
        self.clock.advance(by)
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
            self.clock.advance(by * MICROSECOND)
            rules.passes(by)

    @rule(by=steps, writer=handles)
    def somebody_sets_the_clock(self, by: int, writer: int) -> None:
        self.clock.step_wall(by)
        self.rules.clock_is_set(by * SECOND)
        for queue in self.queues:
            wake_agrees_after_step(self.rules, queue)
        # What is shown of queued jobs is put right by the next write, whoever makes it.
        self.write_nothing(writer)

    def write_nothing(self, writer: int) -> None:
        """A write transaction that changes no job."""
        self.queues[writer].set_lane_limit("nowhere", "nothing", None)

    # Crashes

    @rule(ended=st.sets(handles, min_size=1), close=st.booleans())
    def processes_end(self, ended: set[int], close: bool) -> None:
        """Their handles are closed, or only dropped; all of them at once, or some."""
        for handle in ended:
            if close:
                self.queues[handle].close()
            # Opened again below: where all have ended, the file is found with nobody there.
            self.queues[handle] = None
        for handle in ended:
            self.queues[handle] = self.connect()

    @rule(step=st.just(0) | steps)
    def the_machine_starts_again(self, step: int) -> None:
        for queue in self.queues:
            queue.close()
        self.boots += 1
        self.clock.reboot(f"boot-{self.boots}")
        self.rules.starts_again(SECOND)
        if step:
            self.clock.step_wall(step)
        self.rules.clock_is_set(step * SECOND)
        self.queues[:] = [self.connect() for _ in range(HANDLES)]

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
        file_agrees(self.rules, self.path)
        if self.steps % 16 == 0:
            file_is_sound(self.path)


def wake_agrees_after_step(rules: LifeCycle, queue: bandog.Queue) -> None:
    """A handle that has not written since the clock was set back wakes in time all the same.

    That a job which may run at once shows an older time is allowed until then, a wake that is too late never.
    """
    expected, actual = rules.next_wake(), queue.next_wake()
    assert (expected is None) == (actual is None)
    assert expected is None or actual <= max(when(expected), when(rules.wall)), (actual, when(expected))
