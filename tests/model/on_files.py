"""The machine on SQLite files, with what they alone have: wall clocks that are set, boots, and liveness probes."""

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agreement import when
from fix_store import SqliteStore
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from life_cycle import SECOND, LifeCycle
from machine import HANDLES, Machine, handles
from running import Running, acts
from working import subscriptions

import bandog

steps = st.sampled_from([-86_400, -3600, -60, -5, 5, 60, 3600, 86_400])
alive = st.sampled_from(["alive", "dead", "who knows"])


class OnFiles(Running, Machine):
    refusal_of_a_probe = bandog.RuntimeConflict
    store: SqliteStore

    def __init__(self) -> None:
        super().__init__()
        self.boots = 0

    def open_store(self) -> SqliteStore:
        return SqliteStore(Path(tempfile.mkdtemp(prefix="bandog-model-")) / "jobs.sqlite")

    def teardown(self) -> None:
        try:
            file_is_sound(self.store.path)
        finally:
            super().teardown()
            shutil.rmtree(self.store.path.parent)

    @invariant()
    def the_file_is_sound(self) -> None:
        if self.steps % 16 == 0:
            file_is_sound(self.store.path)

    # Time

    @rule(by=steps, writer=handles)
    def somebody_sets_the_clock(self, by: int, writer: int) -> None:
        self.store.clock.step_wall(by)
        self.rules.clock_is_set(by * SECOND)
        for queue in self.queues:
            wake_agrees_after_step(self.rules, queue)
        # What is shown of queued jobs is put right by the next write, whoever makes it.
        self.write_nothing(writer)

    def write_nothing(self, writer: int) -> None:
        """A write transaction that changes no job."""
        self.queues[writer].set_lane_limit("nowhere", "nothing", None)

    @rule(step=st.just(0) | steps)
    def the_machine_starts_again(self, step: int) -> None:
        self.queues_close()
        self.boots += 1
        self.store.clock.reboot(f"boot-{self.boots}")
        self.rules.starts_again(SECOND)
        if step:
            self.store.clock.step_wall(step)
        self.rules.clock_is_set(step * SECOND)
        self.queues[:] = [self.store.open() for _ in range(HANDLES)]

    # Liveness probes

    @rule(
        handle=handles,
        queues=subscriptions,
        sequence=st.lists(st.tuples(alive, acts), min_size=2, max_size=8),
    )
    def a_runtime_with_a_probe_ticks(self, handle: int, queues: Any, sequence: list[Any]) -> None:
        """And is started again where it died, so that several of its claims are left running."""
        ahead = list(sequence)
        while ahead:
            self.place = (-(2**62), 0)
            with self.runtime(handle, queues=queues, worker="prober", is_alive=self.is_alive) as dog:
                with pytest.raises(bandog.RuntimeConflict):
                    self.runtime(0, lease=5)
                while ahead:
                    self.says, act = ahead.pop(0)
                    if not self.ticks(dog, handle, act, queues, None):
                        break

    def is_alive(self, record: bandog.JobRecord) -> bool:
        self.probed = record.job_id
        if self.says == "who knows":
            raise RuntimeError(self.says)
        return self.says == "alive"

    def probe(self) -> None:
        """The oldest running claim that the probe stands for, then in turn, so that no raising one hides the others."""
        running = [job for job in self.rules.in_state("running") if job.lease.until is None]
        running.sort(key=lambda job: (job.lease.claimed_at, job.number))
        later = [job for job in running if (job.lease.claimed_at, job.number) > self.place]
        self.expected_probe, self.expected_before = None, ([], [], None)
        if not running:
            self.place = (-(2**62), 0)
            return
        job = (later or running)[0]
        self.place = (job.lease.claimed_at, job.number)
        self.expected_probe = job.job_id
        if self.says == "who knows":
            self.expected_before = ([], [], job.job_id)
        elif self.says == "dead":
            self.expected_before = (*self.rules.recover([job]), None)


def wake_agrees_after_step(rules: LifeCycle, queue: bandog.Queue) -> None:
    """A handle that has not written since the clock was set back wakes in time all the same.

    That a job which may run at once shows an older time is allowed until then, a wake that is too late never.
    """
    expected, actual = rules.next_wake(), queue.next_wake()
    assert (expected is None) == (actual is None)
    assert expected is None or actual <= max(when(expected), when(rules.wall)), (actual, when(expected))


def file_is_sound(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
