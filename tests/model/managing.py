"""Rules of operators: cancel, fail a lane, requeue, purge, and pages that are read while jobs come and go."""

import pytest
from agreement import record_agrees, stats_agree
from hypothesis import strategies as st
from hypothesis.stateful import rule
from life_cycle import OUTCOMES, SECOND, Stored
from machine import LANES, QUEUES, Machine, handles, job_ids, picks

import bandog

reasons = st.sampled_from(["why", "because"])
filters = st.fixed_dictionaries(
    {},
    optional={
        "state": st.sampled_from(["queued", "running", "settled"]),
        "queue": st.sampled_from(QUEUES),
        "lane": st.sampled_from(LANES),
    },
) | st.fixed_dictionaries({"outcome": st.sampled_from(OUTCOMES)}, optional={"queue": st.sampled_from(QUEUES)})


class Managing(Machine):
    def __init__(self) -> None:
        super().__init__()
        # Walks that go on over many steps: the place in the list as the store names it, and as the rules do.
        self.jobs_walk: tuple[str, int] | None = None
        self.jobs_filter: dict[str, str] = {}
        self.dead_walk: tuple[str, tuple[int, int]] | None = None

    @rule(handle=handles, pick=picks, state=st.sampled_from(["running", "running", "queued", None]), reason=reasons)
    def cancel(self, handle: int, pick: int, state: str | None, reason: str) -> None:
        job_id = self.some_id(pick, state)
        job = self.job(job_id)
        if job is None:
            with pytest.raises(bandog.JobNotFound):
                self.queues[handle].cancel(job_id, reason)
            return
        answer = self.queues[handle].cancel(job_id, reason)
        assert (answer.kind, answer.outcome) == self.rules.cancel(job, reason)

    @rule(
        handle=handles,
        queue=st.sampled_from(QUEUES),
        lane=st.sampled_from(LANES),
        reason=reasons,
        limit=st.integers(1, 3),
    )
    def fail_lane(self, handle: int, queue: str, lane: str, reason: str, limit: int) -> None:
        there = self.rules.lane(queue, lane)
        answer = self.queues[handle].fail_lane(queue, lane, reason, limit=limit)
        assert (answer.failed, answer.left) == (min(limit, len(there)), max(0, len(there) - limit))
        left = {record.job_id for record in self.queues[handle].jobs(state="queued")}
        failed = [job for job in there if job.job_id not in left]
        assert len(failed) == answer.failed
        self.rules.fail(failed, reason)

    @rule(handle=handles, pick=picks, state=st.sampled_from(["settled", "settled", None]), force=st.booleans())
    def requeue(self, handle: int, pick: int, state: str | None, force: bool) -> None:
        self.requeue_one(handle, self.some_id(pick, state), force=force)

    def requeue_one(self, handle: int, job_id: str, *, force: bool) -> None:
        job = self.job(job_id)
        queue = self.queues[handle]
        if job is None:
            with pytest.raises(bandog.JobNotFound):
                queue.requeue(job_id, force=force)
        elif self.rules.requeue(job, force=force):
            queue.requeue(job_id, force=force)
        else:
            with pytest.raises(bandog.RequeueRefused) as refused:
                queue.requeue(job_id, force=force)
            assert refused.value.outcome == (job.settled.kind if job.settled else None)

    @rule(handle=handles)
    def requeue_all_dead_letters(self, handle: int) -> None:
        for record in self.queues[handle].dead_letters():
            self.requeue_one(handle, record.job_id, force=False)

    @rule(
        handle=handles,
        older_than=st.sampled_from([0, 1, 60]),
        kinds=st.none() | st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=3, unique=True),
        limit=st.sampled_from([1, 1, 2, 1000]),
    )
    def purge(self, handle: int, older_than: int, kinds: list[str] | None, limit: int) -> None:
        queue = self.queues[handle]
        old = self.rules.purgeable(older_than * SECOND, OUTCOMES if kinds is None else tuple(kinds))
        count = queue.purge(older_than=older_than, outcomes=kinds, limit=limit)
        assert count == min(limit, len(old))
        left = {record.job_id for record in queue.jobs()}
        gone = [job for job in old if job.job_id not in left]
        # Which of those that were settled in one moment is free.
        assert [job.settled.at for job in gone] == [job.settled.at for job in old[:limit]], (gone, old)
        for job in gone:
            del self.rules.jobs[job.job_id]

    @rule(handle=handles, bound=st.integers(1, 3), job_id=job_ids)
    def look(self, handle: int, bound: int, job_id: str) -> None:
        stats = self.queues[handle].stats(bound=bound)
        assert stats.bound == bound
        stats_agree(self.rules, stats, bound)
        if self.job(job_id):
            record_agrees(self.rules, self.job(job_id), self.queues[handle].get(job_id))
        else:
            with pytest.raises(bandog.JobNotFound):
                self.queues[handle].read(job_id)

    @rule(handle=handles, limit=st.integers(1, 3), chosen=filters, anew=st.booleans(), dead=st.booleans())
    def next_page(self, handle: int, limit: int, chosen: dict[str, str], anew: bool, dead: bool) -> None:
        if dead:
            self.next_page_of_dead_letters(handle, limit, chosen.get("queue"))
            return
        if anew:
            self.jobs_walk, self.jobs_filter = None, chosen
        after = self.jobs_walk[1] if self.jobs_walk else 0
        left = [job for job in self.rules.by_admission() if job.number > after and self.is_shown(job)]
        page = self.queues[handle].jobs(
            **self.jobs_filter, after=self.jobs_walk[0] if self.jobs_walk else None, limit=limit
        )
        self.page_agrees(page, left, limit)
        self.jobs_walk = (page.next, left[limit - 1].number) if page.next else None

    def next_page_of_dead_letters(self, handle: int, limit: int, queue: str | None) -> None:
        after = self.dead_walk[1] if self.dead_walk else (-(2**62), 0)
        left = [job for job in self.rules.dead_letters(queue) if (job.settled.at, job.number) > after]
        page = self.queues[handle].dead_letters(
            queue=queue, after=self.dead_walk[0] if self.dead_walk else None, limit=limit
        )
        self.page_agrees(page, left, limit)
        self.dead_walk = (page.next, (left[limit - 1].settled.at, left[limit - 1].number)) if page.next else None

    def page_agrees(self, page: bandog.Page, left: list[Stored], limit: int) -> None:
        assert [record.job_id for record in page] == [job.job_id for job in left[:limit]]
        assert (page.next is not None) == (len(left) > limit)
        for job, record in zip(left, page, strict=False):
            record_agrees(self.rules, job, record)

    def is_shown(self, job: Stored) -> bool:
        kinds = {
            "state": job.state,
            "outcome": job.settled.kind if job.settled else None,
            "queue": job.content.queue,
            "lane": job.content.lane,
        }
        return all(kinds[name] == value for name, value in self.jobs_filter.items())
