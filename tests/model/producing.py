"""Rules of producers: new jobs, replays, other content under a known id, full lanes."""

from datetime import timedelta
from typing import Any

import pytest
from agreement import MICROSECOND, record_agrees, when
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from life_cycle import SECOND, Content, canonical
from machine import JOB_IDS, LANES, QUEUES, Machine, handles, job_ids, picks

import bandog
from bandog import Backoff, Job

PAYLOADS = (None, True, 1, 1.5, "x", [1, {"b": None, "a": "é"}], {"a": 1}, {})
BACKOFFS = (None, None, Backoff(2, 5), Backoff(base=timedelta(seconds=10), cap=40, jitter=0.5))
budgets = st.sampled_from([None, None, 0, 1, 2])
contents = st.builds(
    Content,
    queue=st.sampled_from(QUEUES),
    lane=st.sampled_from(LANES),
    priority=st.sampled_from([0, 0, 5, -(2**31)]),
    payload=st.sampled_from(PAYLOADS).map(canonical),
    max_attempts=st.sampled_from([None, None, 1, 2, 9, 9]),
    max_recoveries=budgets,
)
schedules = st.sampled_from(
    [{}, {}, {}, {"delay": 0}, {"delay": 7}, {"delay": timedelta(seconds=60)}, {"at": -5}, {"at": 0}, {"at": 20}]
)
OTHER = {
    "queue": "elsewhere",
    "lane": "else",
    "priority": 77,
    "payload": '"other"',
    "max_attempts": 77,
    "max_recoveries": 77,
}
VALUES = {canonical(value): value for value in (*PAYLOADS, "other")}
admissions = st.tuples(job_ids, contents, st.sampled_from(BACKOFFS), schedules)


class Producing(Machine):
    def made(self, job_id: str, content: Content, backoff: Backoff | None, schedule: dict[str, Any]) -> Job:
        fields = dict(vars(content))
        fields["payload"] = VALUES[content.payload]
        if "delay" in schedule:
            fields["delay"] = schedule["delay"]
        if "at" in schedule:
            fields["available_at"] = when(self.rules.wall + schedule["at"] * SECOND)
        return Job(job_id=job_id, backoff=backoff, **fields)

    def admits(
        self, job_id: str, content: Content, backoff: Backoff | None, schedule: dict[str, Any]
    ) -> tuple[str, set[str]]:
        wait = schedule.get("delay", 0)
        wait = wait // MICROSECOND if isinstance(wait, timedelta) else wait * SECOND
        due = self.rules.wall + schedule.get("at", 0) * SECOND + wait
        return self.rules.ingest(job_id, content, backoff, due)

    def admission_agrees(self, admission: bandog.Admission, kind: str, different: set[str]) -> None:
        assert (admission.kind, set((admission.difference or "").split(", ")) - {""}) == (kind, different)

    @initialize(first=st.lists(admissions, min_size=3, max_size=6))
    def some_jobs(self, first: list[Any]) -> None:
        """So that most runs do not claim from nothing for long."""
        self.ingest_many(0, first)

    @rule(handle=handles, admission=admissions, as_fields=st.booleans())
    def ingest(self, handle: int, admission: Any, as_fields: bool) -> None:
        job = self.made(*admission)
        kind, different = self.admits(*admission)
        queue = self.queues[handle]

        def ingest() -> bandog.Admission:
            return (
                queue.enqueue(**{name: getattr(job, name) for name in job.__slots__})
                if as_fields
                else queue.ingest(job)
            )

        if kind == "conflict":
            with pytest.raises(bandog.JobConflict) as conflict:
                ingest()
            assert set(conflict.value.difference.split(", ")) == different
        elif kind == "refused":
            with pytest.raises(bandog.LaneFull) as full:
                ingest()
            assert full.value.limit == self.rules.limits[job.queue, job.lane]
        else:
            answer = ingest()
            self.admission_agrees(answer, kind, different)
            record_agrees(self.rules, self.rules.jobs[job.job_id], answer.job)

    @rule(handle=handles, batch=st.lists(admissions, min_size=1, max_size=6))
    def ingest_many(self, handle: int, batch: list[Any]) -> None:
        jobs = [self.made(*admission) for admission in batch]
        answers = self.queues[handle].ingest_many(jobs)
        for admission, answer in zip(batch, answers, strict=True):
            self.admission_agrees(answer, *self.admits(*admission))

    @rule(handle=handles, pick=picks, other=st.sampled_from([None, None, *OTHER]), schedule=schedules)
    def replay(self, handle: int, pick: int, other: str | None, schedule: dict[str, Any]) -> None:
        """The same job again, on another schedule maybe; or with one field changed."""
        if not self.rules.jobs:
            return
        job_id = sorted(self.rules.jobs)[pick % len(self.rules.jobs)]
        content = self.rules.jobs[job_id].content
        if other:
            content = Content(**{**vars(content), other: OTHER[other]})
        self.ingest(handle, (job_id, content, None, schedule), as_fields=False)

    @rule(handle=handles, batch=st.lists(admissions, min_size=1, max_size=1), spoiled=st.sampled_from(JOB_IDS))
    def one_job_that_no_store_accepts_spoils_the_batch(self, handle: int, batch: list[Any], spoiled: str) -> None:
        jobs = [*(self.made(*admission) for admission in batch), Job(job_id=spoiled, payload=float("nan"))]
        with pytest.raises(bandog.PayloadError):
            self.queues[handle].ingest_many(jobs)

    @rule(
        handle=handles,
        queue=st.sampled_from(QUEUES),
        lane=st.sampled_from(LANES),
        limit=st.sampled_from([None, None, 0, 1, 2]),
    )
    def set_lane_limit(self, handle: int, queue: str, lane: str, limit: int | None) -> None:
        self.queues[handle].set_lane_limit(queue, lane, limit)
        if limit is None:
            self.rules.limits.pop((queue, lane), None)
        else:
            self.rules.limits[queue, lane] = limit
