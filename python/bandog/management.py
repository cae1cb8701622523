"""Looking after stored jobs: read, list and count them, cancel, fail, requeue and forget them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from bandog._core import JobRecord
    from bandog._operations import Operations, Seconds
    from bandog.answers import Cancellation, FailedLane, Page, Stats

__all__ = ["Management"]


class Management:
    """The part of a queue that producers and workers seldom need, and operators do."""

    _operations: Operations

    # Looking

    def read(self, job_id: str) -> JobRecord:
        """Everything that is known of a job.

        Raises:
            JobNotFound: there is no such job.
        """
        return self._operations.read(job_id).wait()

    def get(self, job_id: str) -> JobRecord:
        """The same as :meth:`read`, under the name of seed 2."""
        return self.read(job_id)

    def jobs(
        self,
        *,
        state: str | None = None,
        outcome: str | None = None,
        queue: str | None = None,
        lane: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page:
        """Jobs in order of admission. A page neither repeats nor skips a job that was there all the time.

        Args:
            state: ``"queued"``, ``"running"`` or ``"settled"``; ``None`` (the default) for any.
            outcome: only settled jobs of this kind of outcome.
            queue: only jobs of this queue.
            lane: only jobs of this lane.
            after: the ``next`` of the page before; ``None`` (the default) for the first page.
            limit: the most jobs of the page, at least 1. Default 100.

        Raises:
            InvalidJob: an argument that is not allowed.
        """
        return self._operations.jobs(state, outcome, queue, lane, after, limit).wait()

    def dead_letters(self, *, queue: str | None = None, after: str | None = None, limit: int = 100) -> Page:
        """Jobs that failed or were interrupted, in the order in which they were settled; see :meth:`jobs`."""
        return self._operations.dead_letters(queue, after, limit).wait()

    def stats(self, *, bound: int = 10_000) -> Stats:
        """What there is to do, and what was done.

        Args:
            bound: where counting stops, at least 1. Default 10,000.

        Returns:
            The counts, and on PostgreSQL what keeps the server from cleaning up: see :class:`bandog.Stats`.
        """
        return self._operations.stats(bound).wait()

    def has_pending_work(self) -> bool:
        """Whether any job is queued (also for later) or running."""
        return self._operations.has_pending_work().wait()

    def next_wake(self) -> datetime | None:
        """When the next queued job is due or the next claim expires.

        Returns:
            An aware ``datetime``, which may have passed; ``None`` with nothing pending. A claim under a liveness
            probe has no end, and does not count.
        """
        return self._operations.next_wake().wait()

    # Changing

    def cancel(self, job_id: str, reason: str = "cancelled on request") -> Cancellation:
        """Keep a queued job from running, or ask a running one to stop.

        A running job ends as its executor reports: it may still complete. But it is not tried again: a retry becomes
        ``failed``, a snooze or release ``cancelled``, and a lost claim ``interrupted``. Of several requests the first
        stands.

        Args:
            job_id: the job.
            reason: for the record, and for the executor as ``cancel.detail``.

        Raises:
            JobNotFound: there is no such job.
        """
        return self._operations.cancel(job_id, reason).wait()

    def fail_lane(self, queue: str, lane: str, reason: str, *, limit: int = 1000) -> FailedLane:
        """Settle queued jobs of one lane as ``failed``, in no promised order. Running ones are left alone.

        Args:
            queue: the queue.
            lane: the lane.
            reason: for the record.
            limit: the most jobs of one call, at least 1. Default 1000.
        """
        return self._operations.fail_lane(queue, lane, reason, limit).wait()

    def set_lane_limit(self, queue: str, lane: str, limit: int | None) -> None:
        """Bound how many jobs of a lane may be queued. Stored, and so in force for every process.

        A job beyond the bound is refused (:class:`LaneFull`). Replays and conflicts are answered as always, and jobs
        that are put back or requeued are never refused. Each call of ingest counts the lane once, up to the bound.

        Args:
            queue: the queue.
            lane: the lane.
            limit: from 0 to 2147483647; ``None`` for no bound.
        """
        self._operations.set_lane_limit(queue, lane, limit).wait()

    def purge(self, *, older_than: Seconds, outcomes: Sequence[str] | str | None = None, limit: int = 1000) -> int:
        """Forget settled jobs, the longest settled first. With a job goes the protection against its replay.

        Args:
            older_than: seconds (float) or ``timedelta`` since they were settled.
            outcomes: a kind of outcome or several, such as ``"completed"``; ``None`` (the default) for all of them.
            limit: the most jobs of one call, at least 1. Default 1000.

        Returns:
            How many were forgotten. Call again while that equals ``limit``.
        """
        return self._operations.purge(older_than, outcomes, limit).wait()

    def requeue(self, job_id: str, *, force: bool = False) -> None:
        """Give a dead letter a new life: queued at once, with all its attempts and recoveries (seed 2).

        Tokens of its former claims stay invalid, and the numbers of its attempts go on. A request to cancel it is
        forgotten.

        Args:
            job_id: a job that failed or was interrupted.
            force: also one whose outcome is unknown, or that was cancelled. Default ``False``.

        Raises:
            RequeueRefused: it has another outcome, or none yet. Nothing was changed.
            JobNotFound: there is no such job.
        """
        self._operations.requeue(job_id, force).wait()
