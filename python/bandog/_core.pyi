"""Types of the compiled module: an open store's handle, what it answers, and the canonical form of JSON.

Private: :mod:`bandog.queue` and :mod:`bandog.watchdog` are its only users, and the package re-exports ``Admission``,
``CancellationToken``, ``ClaimedJob`` and ``JobRecord``. Written by hand, and held to the binary by
``python -m mypy.stubtest bandog._core``.

Every operation of :class:`Engine` checks its arguments, hands them to the engine's threads and returns a
:class:`Completion`. What is wrong with an argument is raised by the call; what the store has to say is raised by
``wait()``. Durations are seconds (int or float) or ``timedelta``; times are aware ``datetime`` objects in UTC. All
classes are frozen and may be shared by threads.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar, final

from bandog.job import Job
from bandog.outcome import Outcome, Report

__all__ = [
    "DEBUG_BUILD",
    "Admission",
    "CancellationToken",
    "ClaimedJob",
    "Completion",
    "Engine",
    "FakeClock",
    "FrozenReport",
    "JobRecord",
    "Pool",
    "RuntimeLock",
    "__version__",
    "abort_token",
    "canonical_json",
    "canonical_json_text",
    "freeze_report",
    "in_thread",
    "migrate_postgres",
    "migration_status_postgres",
    "remote_token",
    "shut_down",
    "sqlite_version",
    "thaw_claim",
    "thaw_report",
    "uninstall_postgres",
]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

_Seconds: TypeAlias = float | timedelta
_Claim: TypeAlias = ClaimedJob | tuple[str, str]
_AbortReason: TypeAlias = Literal["cancel_requested", "lease_lost", "shutdown", "timeout"]
_Renewed: TypeAlias = Literal["renewed", "stale", "not_found"]
_Kind: TypeAlias = Literal["completed", "failed", "cancelled", "outcome_unknown", "interrupted"]
_Settled: TypeAlias = Literal[
    "completed",
    "failed",
    "cancelled",
    "outcome_unknown",
    "interrupted",
    "retried",
    "snoozed",
    "released",
    "stale",
    "not_found",
]

__version__: str
"""The version of the package, as in ``"0.1.0"``."""

DEBUG_BUILD: bool
"""Whether the module was built without optimisation; numbers measured on it mean nothing."""

@final
class Engine:
    """An open store. Safe to use from many threads.

    In a forked child every method but :meth:`close` raises ``ForkedQueue``. After :meth:`close`, what is asked for
    fails with ``QueueClosed``.
    """

    @staticmethod
    def open_sqlite(
        path: str | PathLike[str],
        *,
        synchronous: str,
        busy_timeout: _Seconds,
        allow_network_filesystem: bool,
        payload_limit: int,
        clock: FakeClock | None = None,
    ) -> Engine:
        """Open an SQLite file, and make bandog's tables where it has none.

        Args:
            path: the file; created where it is missing, in a folder that exists.
            synchronous: ``"full"`` or ``"normal"``; see :func:`bandog.connect`.
            busy_timeout: from 0 to 100 years; how long a call waits for a lock that another connection holds.
            allow_network_filesystem: open a file that lies on one, instead of refusing it.
            payload_limit: bytes of canonical JSON that a payload, result or evidence may have, at least 0.
            clock: where "now" comes from; ``None`` (the default) for the machine's clocks.

        Raises:
            CannotOpen: not a usable file. It was not touched.
            SchemaMismatch: tables of another version.
            StoreBusy: another connection kept the lock for the whole ``busy_timeout``.
            InvalidJob: ``synchronous`` or ``busy_timeout`` is not allowed.
            OverflowError: ``payload_limit`` is negative or beyond the machine's word.
        """

    @staticmethod
    def open_postgres(
        url: str,
        *,
        schema: str,
        busy_timeout: _Seconds,
        payload_limit: int,
        clock: FakeClock | None = None,
    ) -> tuple[Engine, str]:
        """Open a schema of a PostgreSQL database; also a name for it without secrets.

        Args:
            url: as libpq reads it.
            schema: the schema that holds the tables.
            busy_timeout: from 0 to 100 years; how long a call waits for rows that another transaction holds locked.
            payload_limit: bytes of canonical JSON that a payload, result or evidence may have, at least 1.
            clock: on which this process gives up claims; ``None`` (the default) for the machine's.

        Raises:
            CannotOpen: the server cannot be reached, or refuses.
            SchemaMismatch: tables of another version, or none.
            InvalidJob: an argument that is not allowed.
        """

    def ingest(self, jobs: list[Job]) -> Completion[list[Admission]]:
        """Store jobs in one transaction.

        Args:
            jobs: what to store; each is read before this returns, and may be changed afterwards.

        Returns:
            One admission per job, in order: a conflict or a full lane spoils no other job. What was admitted is durable
            when it completes.

        Raises:
            InvalidJob: the first job that no store may accept; ``PayloadError`` for its payload. Nothing was written.
            QueueClosed, StoreBusy, StorageFull, StoreFailed: by ``wait()``. Nothing was stored.
        """

    def claim(
        self, *, worker: str, queues: list[str] | None, limit: int, lease: _Seconds | None, keep: bool
    ) -> Completion[tuple[list[ClaimedJob], list[CancellationToken | None], tuple[str, ...], tuple[str, ...]]]:
        """Recover up to 100 lost claims, then claim due jobs.

        Args:
            worker: a name for the record, 1 to 255 characters.
            queues: the queues to look at, at least one; ``None`` for all of them.
            limit: the most jobs to claim, from 1 to 4294967295.
            lease: how long each claim holds without renewal, at least 0.5 s; ``None`` where a liveness probe stands for
                it.
            keep: renew each claim on a native thread until :meth:`let_go`.

        Returns:
            ``(claims, tokens, recovered, interrupted)``: the claims by priority, then ``available_at``, then admission;
            with ``keep`` one token per claim, ``None`` for a claim that came with under half its lease left and is to
            be released, otherwise an empty list; the ids of the jobs whose lost claims were put back, and of those
            settled ``interrupted``.

        Raises:
            InvalidJob: an argument that is not allowed.
            QueueClosed, StoreBusy, StorageFull, StoreFailed: by ``wait()``. Nothing was claimed.
        """

    def let_go(self, claim: ClaimedJob) -> None:
        """Stop renewing a claim that was claimed with ``keep``. Does nothing for another."""

    def held(self) -> int:
        """How many claims are renewed by this engine."""

    def renew(self, claims: list[_Claim], lease: _Seconds) -> Completion[list[tuple[_Renewed, str | None]]]:
        """Prolong claims, each only where it still holds.

        Args:
            claims: claimed jobs, or pairs ``(job_id, lease_token)``.
            lease: from the moment of the write, at least 0.5 s.

        Returns:
            Per claim, in order, a word and the reason with which the job's cancellation was asked for (``None`` where
            it was not, and for the other words).

        Raises:
            InvalidJob: a claim that is none, or a lease that is not allowed.
            QueueClosed, StoreBusy, StorageFull, StoreFailed: by ``wait()``. Nothing was renewed.
        """

    def settle(self, reports: list[tuple[_Claim, Report]]) -> Completion[list[tuple[_Settled, datetime | None]]]:
        """End claims with what became of them, in one transaction, each only where it still holds.

        Args:
            reports: pairs of a claim (a claimed job, or ``(job_id, lease_token)``) and its report.

        Returns:
            Per pair, in order, a word and, for ``retried`` and ``snoozed``, when the job is due (``None`` where the
            report was a repeated one and the job has moved on, and for the other words).

        Raises:
            InvalidJob: a claim or report that is none. Nothing was settled.
            QueueClosed, StoreBusy, StorageFull, StoreFailed: by ``wait()``. Nothing was settled.
        """

    def recover(self, limit: int) -> Completion[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Deal with lost claims.

        Args:
            limit: the most claims to deal with, from 1 to 4294967295.

        Returns:
            ``(recovered, interrupted)``, as for :meth:`claim`.

        Raises:
            InvalidJob: ``limit`` is not allowed.
            QueueClosed, StoreBusy, StorageFull, StoreFailed: by ``wait()``. Nothing was recovered.
        """

    def cancel(
        self, jobs: Sequence[tuple[str, str]]
    ) -> Completion[list[tuple[Literal["cancelled", "requested", "settled", "not_found"], _Kind | None]]]:
        """Keep queued jobs from running, and ask running ones to stop. A claim that is kept here is told at once.

        Args:
            jobs: pairs ``(job_id, reason)``.

        Returns:
            Per job, in order, a word, and for ``settled`` the kind of the outcome that it had before.

        Raises:
            InvalidJob: an id or a reason that is no ``str``, or an id that is no valid Unicode.
            QueueClosed, StoreBusy, StorageFull, StoreFailed: by ``wait()``. Nothing was changed.
        """

    def fail_lane(self, queue: str, lane: str, reason: str, limit: int) -> Completion[tuple[int, int]]:
        """Settle queued jobs of one lane as ``failed``.

        Args:
            queue: 1 to 255 characters.
            lane: 1 to 255 characters.
            reason: for the record.
            limit: the most jobs, from 1 to 4294967295.

        Returns:
            ``(failed, left)``: how many were settled, and how many are still queued in the lane.

        Raises:
            InvalidJob: an argument that is not allowed.
            QueueClosed, StoreBusy, StorageFull, StoreFailed: by ``wait()``. Nothing was changed.
        """

    def set_lane_limit(self, queue: str, lane: str, most: int | None) -> Completion[None]:
        """Bound how many jobs of a lane may be queued.

        Args:
            queue: 1 to 255 characters.
            lane: 1 to 255 characters.
            most: from 0 to 2147483647; ``None`` for no bound. Refused under the name ``limit``.

        Raises:
            InvalidJob: an argument that is not allowed.
            QueueClosed, StoreBusy, StorageFull, StoreFailed: by ``wait()``. Nothing was changed.
        """

    def purge(self, older_than: _Seconds, outcomes: Sequence[str], limit: int) -> Completion[int]:
        """Forget settled jobs.

        Args:
            older_than: how long ago they were settled, from 0 to 100 years.
            outcomes: the kinds of outcome to look at.
            limit: the most jobs, from 1 to 4294967295.

        Returns:
            How many were forgotten.

        Raises:
            InvalidJob: an argument that is not allowed.
            QueueClosed, StoreBusy, StorageFull, StoreFailed: by ``wait()``. Nothing was forgotten.
        """

    def requeue(
        self, job_ids: Sequence[str], force: bool
    ) -> Completion[list[tuple[Literal["requeued", "refused", "not_settled", "not_found"], _Kind | None]]]:
        """Give dead letters a new life.

        Args:
            job_ids: the jobs.
            force: also those whose outcome is unknown, and cancelled ones.

        Returns:
            Per job, in order, a word, and for ``refused`` the kind of its outcome.

        Raises:
            InvalidJob: an id that is no ``str``, or no valid Unicode; ``force`` is no ``bool``.
            QueueClosed, StoreBusy, StorageFull, StoreFailed: by ``wait()``. Nothing was changed.
        """

    def dead_letters(
        self, queue: str | None, after: str | None, limit: int
    ) -> Completion[tuple[list[JobRecord], str | None]]:
        """Jobs that failed or were interrupted, in the order in which they were settled.

        Args:
            queue: only jobs of this queue; ``None`` for all.
            after: the cursor of the page before; ``None`` for the first page.
            limit: the most jobs, from 1 to 4294967295.

        Returns:
            ``(records, cursor)``; the cursor is ``None`` after the last page.

        Raises:
            InvalidJob: an argument that is not allowed.
            QueueClosed, StoreBusy, StoreFailed: by ``wait()``.
        """

    def jobs(
        self,
        *,
        state: str | None,
        outcome: str | None,
        queue: str | None,
        lane: str | None,
        after: str | None,
        limit: int,
    ) -> Completion[tuple[list[JobRecord], str | None]]:
        """Jobs in order of admission.

        Args:
            state: ``queued``, ``running`` or ``settled``; ``None`` for any.
            outcome: only settled jobs of this kind of outcome; ``None`` for any.
            queue: only jobs of this queue; ``None`` for all.
            lane: only jobs of this lane; ``None`` for all.
            after: the cursor of the page before; ``None`` for the first page.
            limit: the most jobs, from 1 to 4294967295.

        Returns:
            ``(records, cursor)``; the cursor is ``None`` after the last page.

        Raises:
            InvalidJob: an argument that is not allowed.
            QueueClosed, StoreBusy, StoreFailed: by ``wait()``.
        """

    def stats(
        self, bound: int
    ) -> Completion[
        tuple[
            list[tuple[str, int, int, int, datetime | None]],
            list[tuple[_Kind, int]],
            tuple[str, str, str | None, float | None, int] | None,
        ]
    ]:
        """What there is to do and what was done.

        Args:
            bound: where counting stops, from 1 to 4294967295.

        Returns:
            ``(queues, outcomes, snapshot)``: per queue with queued or running jobs its name, how many are queued, due
            and running, and since when the longest waiting one is due; per kind of outcome, how many jobs have it; the
            fields of :class:`bandog.Snapshot`, or ``None``.

        Raises:
            InvalidJob: ``bound`` is not allowed.
            QueueClosed, StoreBusy, StoreFailed: by ``wait()``.
        """

    def probe(self, after: str | None) -> Completion[tuple[JobRecord, str, int, str] | None]:
        """The oldest claim that a liveness probe stands for, after a place in that order.

        Args:
            after: the cursor of an earlier answer; ``None`` to begin with the oldest.

        Returns:
            ``(record, cursor, number, lease_token)``: the job, its place, and what :meth:`recover_claim` takes;
            ``None`` where there is none.

        Raises:
            InvalidJob: ``after`` is no cursor.
            QueueClosed, StoreBusy, StoreFailed: by ``wait()``.
        """

    @property
    def payload_limit(self) -> int:
        """The most bytes that a payload, result or evidence may have as canonical JSON."""

    def start_pool(self, settings: Any) -> Pool:
        """Start a pool, whose threads claim jobs and record what comes of them.

        Args:
            settings: an object with the attributes ``worker`` (str), ``queues`` (list of str, or ``None`` for all),
                ``lease`` (seconds), ``concurrency`` (1 to 100,000: how many jobs run at once), ``prefetch`` (0 to
                100,000: how many more are claimed), ``timeout`` (seconds for jobs that do not say, or ``None``),
                ``poll`` (seconds between two looks at an idle store), ``on_events`` (called with a list of tuples
                ``(kind, job_id, queue, attempt, available_at, reason)`` after changes were recorded, or ``None``) and
                ``on_available`` (called when jobs wait, in place of threads in :meth:`Pool.next`, or ``None``). Both
                are called from the thread for callbacks, and must return soon.

        Raises:
            InvalidJob: a setting that is not allowed. QueueClosed, StoreFailed: nothing was started.
        """

    def recover_claim(self, number: int, lease_token: str) -> Completion[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Deal with one claim that a liveness probe found dead, unless it has ended meanwhile.

        Args:
            number: from :meth:`probe`.
            lease_token: from :meth:`probe`.

        Returns:
            ``(recovered, interrupted)``, as for :meth:`claim`.

        Raises:
            QueueClosed, StoreBusy, StorageFull, StoreFailed: by ``wait()``. Nothing was changed.
        """

    def lock_runtime(self, lease: _Seconds | None, adopt: bool) -> RuntimeLock:
        """Take part in running the jobs of the store. Waits for the store.

        Args:
            lease: with leases of this length, at least 0.5 s: then claims that a liveness probe stood for, and that
                nobody probes any more, get one. ``None`` for the one runtime that probes.
            adopt: give claims that nobody probes any more a lease at once, and not only with the next claim.

        Returns:
            A part that ends when it is released or collected.

        Raises:
            RuntimeConflict: a runtime with a probe beside any other one.
            InvalidJob: a lease that is not allowed.
            QueueClosed, StoreBusy, StorageFull, StoreFailed: no part was taken.
        """

    def read(self, job_ids: Sequence[str]) -> Completion[list[JobRecord | None]]:
        """Look at jobs.

        Args:
            job_ids: a sequence of ids; a ``str`` is refused with ``TypeError``.

        Returns:
            One record per id, in order; ``None`` for a job that is not there.

        Raises:
            InvalidJob: an id that is no ``str``, or no valid Unicode.
            QueueClosed, StoreBusy, StoreFailed: by ``wait()``.
        """

    def has_pending_work(self) -> Completion[bool]:
        """Whether any job is queued (also for later) or running.

        Raises:
            QueueClosed, StoreBusy, StoreFailed: by ``wait()``.
        """

    def next_wake(self) -> Completion[datetime | None]:
        """When the next queued job is due or the next claim expires; it may have passed. ``None`` with nothing pending.

        Raises:
            QueueClosed, StoreBusy, StoreFailed: by ``wait()``.
        """

    def schema_identity(self) -> Completion[str | None]:
        """Which schema of which database of which server the jobs are in: of two connections with the same answer, both
        lead to the same jobs. ``None`` for an SQLite file.

        Raises:
            QueueClosed, StoreBusy, StoreFailed: by ``wait()``.
        """

    def set_wake(self, callback: Callable[[datetime | None], object] | None) -> None:
        """Have ``callback(next)`` called after changes, from a thread of the engine's.

        Args:
            callback: given when the next work is due, as :meth:`next_wake` tells it; ``None`` to call nobody any more.

        Raises:
            StoreFailed: its thread could not be started.
        """

    def close(self) -> None:
        """Stop renewing, finish what was asked for, and let go of the database.

        Closing twice is allowed; in a forked child it does nothing.
        """

@final
class Completion(Generic[_T_co]):
    """The result of one operation, on its way.

    Generic for checkers only: at run time it cannot be subscripted.
    """

    def then(self, callback: Callable[[_T_co | None, BaseException | None], object]) -> None:
        """Have ``callback(value, error)`` called, one of them ``None``, instead of waiting.

        It is called from a thread of the engine's, and must hand the result on and return. What it raises goes to
        ``sys.unraisablehook``.

        Raises:
            RuntimeError: it was waited for already.
        """

    def wait(self) -> _T_co:
        """Wait for the result, outside the interpreter; signals are looked for every 100 ms. May be called once.

        A signal handler that raises ends the wait, not the operation.

        Raises:
            BandogError: what the operation says; see there.
            RuntimeError: it was waited for already.
        """

@final
class Admission:
    """The answer to one ingested job."""

    @property
    def kind(self) -> Literal["admitted", "duplicate", "conflict", "refused"]:
        """What became of it.

        ``admitted``: it is stored. ``duplicate``: the same job was stored already. ``conflict``: its id is taken by
        other content, and nothing was changed. ``refused``: its lane is full, and it was not stored.
        """

    @property
    def job_id(self) -> str:
        """The job's id: the one that was given, or the one that was made."""

    @property
    def job(self) -> JobRecord | None:
        """The stored job as it is now; under ``conflict`` the one that holds the id. ``None`` under ``refused``."""

    @property
    def limit(self) -> int | None:
        """For ``refused``, how many jobs may be queued in the lane; ``None`` otherwise."""

    @property
    def difference(self) -> str | None:
        """For ``conflict``, the fields that differ, as in ``"payload, priority"``; ``None`` otherwise."""

@final
class ClaimedJob:
    """One claimed job: what an executor is given.

    Its ``repr`` leaves out the lease token: whoever has that may settle the job.
    """

    @property
    def job_id(self) -> str:
        """The job's id. Give it to a provider that deduplicates."""

    @property
    def queue(self) -> str:
        """The queue that it was ingested into."""

    @property
    def lane(self) -> str:
        """The stream inside the queue."""

    @property
    def priority(self) -> int:
        """A higher one runs first."""

    @property
    def payload(self) -> Any:
        """The payload as a Python value, parsed when first asked for: the same object each time."""

    @property
    def payload_json(self) -> str:
        """The payload as canonical JSON."""

    @property
    def attempt(self) -> int:
        """The number of this claim, from 1; never reused."""

    @property
    def charged(self) -> int:
        """Claims that count against ``max_attempts``, this one included: all but those given back."""

    @property
    def recoveries(self) -> int:
        """How often a lost claim on this job was put back."""

    @property
    def max_attempts(self) -> int | None:
        """The budget of charged attempts; ``None`` where a reported failure is final."""

    @property
    def max_recoveries(self) -> int | None:
        """The budget of recoveries, as it was ingested."""

    @property
    def timeout(self) -> float | None:
        """Seconds that an executor may take; ``None`` for no bound."""

    @property
    def lease_token(self) -> str:
        """What renews and settles this claim, together with the job's id. A secret of the worker."""

    @property
    def last_error(self) -> str | None:
        """What ended the attempt before this one, where it failed or was lost."""

    @property
    def admitted_at(self) -> datetime:
        """When the job was ingested."""

    @property
    def claimed_at(self) -> datetime:
        """When this claim was made."""

@final
class JobRecord:
    """Everything that is known of a job, as it was when it was read."""

    @property
    def job_id(self) -> str:
        """The job's id."""

    @property
    def queue(self) -> str:
        """The queue that it was ingested into."""

    @property
    def lane(self) -> str:
        """The stream inside the queue."""

    @property
    def priority(self) -> int:
        """A higher one runs first."""

    @property
    def payload(self) -> Any:
        """The payload as a Python value, parsed anew each time."""

    @property
    def payload_json(self) -> str:
        """The payload as canonical JSON."""

    @property
    def max_attempts(self) -> int | None:
        """The budget of charged attempts; ``None`` where a reported failure is final."""

    @property
    def max_recoveries(self) -> int | None:
        """The budget of recoveries, as it was ingested."""

    @property
    def admitted_at(self) -> datetime:
        """When it was ingested."""

    @property
    def attempts(self) -> int:
        """How often it was claimed."""

    @property
    def given_back(self) -> int:
        """Attempts that do not count: snoozed or released."""

    @property
    def charged(self) -> int:
        """``attempts - given_back``."""

    @property
    def recoveries(self) -> int:
        """How often a lost claim was put back."""

    @property
    def state(self) -> Literal["queued", "running", "settled"]:
        """Where the job is."""

    @property
    def available_at(self) -> datetime | None:
        """While ``queued``, when it is due."""

    @property
    def worker(self) -> str | None:
        """While ``running``, who claimed it; once ``settled``, who settled it, where that is known."""

    @property
    def claimed_at(self) -> datetime | None:
        """While ``running``, when."""

    @property
    def lease_until(self) -> datetime | None:
        """While ``running``, when the claim ends unless it is renewed; ``None`` under a liveness probe."""

    @property
    def cancel_requested_at(self) -> datetime | None:
        """While ``running``, when its cancellation was asked for; ``None`` where it was not."""

    @property
    def cancel_reason(self) -> str | None:
        """While ``running``, the reason with which its cancellation was asked for."""

    @property
    def settled_at(self) -> datetime | None:
        """Once ``settled``, when."""

    @property
    def error(self) -> str | None:
        """The latest failure, loss or reason to cancel, also while the job waits for another attempt."""

    @property
    def outcome(self) -> Outcome | None:
        """Once ``settled``, what was recorded."""

@final
class FrozenReport:
    """A report that was read and checked; picklable. Taken wherever an outcome is."""

_Task: TypeAlias = tuple[int, ClaimedJob, CancellationToken]

@final
class Pool:
    """Claimed jobs for executors, and their reports back; see :meth:`Engine.start_pool`.

    A slot is one running job's place. Dropping the pool drains it; its thread goes on until what runs has been
    recorded.
    """

    def next(self, slot: int | None = None, report: Report | FrozenReport | None = None) -> _Task | None:
        """Finish a job, then wait for the next one, outside the interpreter.

        Args:
            slot: of the job that has ended; ``None`` for none.
            report: what came of it; ``None`` for completed.

        Returns:
            ``(slot, job, token)``; ``None`` once there will be no more.

        Raises:
            InvalidJob: a report that cannot be read, or whatever reading it raises. Then nothing was finished.
            ForkedQueue: in a forked child.
        """

    def take(self, limit: int) -> list[_Task]:
        """Up to ``limit`` jobs that can start now, each as for :meth:`next`. Never waits.

        Raises:
            QueueClosed: there will be no more, since the store is closed.
        """

    def finish(self, slot: int, report: Report | FrozenReport | None = None) -> None:
        """Finish a job, as :meth:`next` does. Never waits. One that was finished before is left alone."""

    def finish_all(self, ended: list[tuple[int, Report | None]]) -> list[tuple[int, Report | None, BaseException]]:
        """Finish several jobs, given as ``(slot, report)``. Never waits.

        Returns:
            Those whose reports cannot be read, with what reading them raised. They are not finished.
        """

    def lose(self, slot: int, how: str) -> None:
        """Finish a job whose executor is dead: its claim is recovered at once. ``how`` is for the record."""

    def drain(self) -> None:
        """Claim nothing more, and hand back what nobody has started."""

    def wait(self, state: str, timeout: float) -> bool:
        """Wait for a state, ``timeout`` seconds at most: ``idle`` (no job runs), ``recorded`` (every report is) or
        ``drained`` (no job is due, none runs, all is recorded). Whether it was reached.
        """

    def flush(self, timeout: float) -> bool:
        """Wait, ``timeout`` seconds at most, until all events so far have been handed over. Whether they were."""

    def abort(self) -> None:
        """Abort the tokens of all running jobs, with the reason ``shutdown``."""

    def running(self) -> list[str]:
        """The ids of the running jobs."""

    def stats(self) -> dict[str, Any]:
        """The fields of :class:`bandog.events.WorkerStats`, but for ``state``."""

@final
class RuntimeLock:
    """A runtime's part in running the jobs of a store. Ends when it is released or collected."""

    def release(self) -> None:
        """Stop taking part. Releasing twice is allowed."""

@final
class CancellationToken:
    """Watched by an executor; aborted once, with a reason. In a forked child its members raise ``ForkedQueue``."""

    @property
    def aborted(self) -> bool:
        """Whether the executor should stop."""

    @property
    def reason(self) -> _AbortReason | None:
        """Why; ``None`` while it was not aborted. The first reason stands."""

    @property
    def detail(self) -> str | None:
        """What was said when the cancellation was asked for; ``None`` for the other reasons."""

    def raise_if_aborted(self) -> None:
        """Return at once, unless the executor should stop.

        Raises:
            JobAborted: with the reason.
        """

    def wait(self, timeout: _Seconds | None = None) -> bool:
        """Sleep until it is aborted, outside the interpreter.

        Args:
            timeout: the longest to wait; ``None`` (the default) for no bound, 0 or less for not at all.

        Returns:
            Whether it is aborted.

        Raises:
            InvalidJob: ``timeout`` is no duration.
        """

    def add_callback(self, callback: Callable[[_AbortReason], object]) -> None:
        """Have ``callback(reason)`` called once when it is aborted, or at once where it was, on a thread kept for that.

        What a callback raises goes to ``sys.unraisablehook``; what it returns is ignored.
        """

@final
class FakeClock:
    """A clock that stands still until it is moved. See :class:`bandog.testing.FakeClock`."""

    def __new__(cls, start: datetime) -> Self:
        """A clock that shows ``start``, an aware ``datetime``, one hour after a boot named ``first``.

        Raises:
            InvalidJob: ``start`` is no aware ``datetime``.
        """

    def now(self) -> datetime:
        """The wall time."""

    def advance(self, by: _Seconds) -> None:
        """Time passes: the wall clock and the uptime go on."""

    def step_wall(self, by: _Seconds) -> None:
        """Somebody sets the wall clock, forwards or (negative) back."""

    def reboot(self, boot: str) -> None:
        """The machine is started again: the uptime begins anew, under the name ``boot``."""

def canonical_json(value: Any, limit: int) -> str:
    """The canonical JSON text of a Python value: keys sorted, no spaces, not escaped beyond what JSON demands.

    Args:
        value: dict with str keys, list, tuple, str, int, float, bool or None, nested up to 128 deep.
        limit: the most bytes that its UTF-8 form may have.

    Raises:
        PayloadError: not storable JSON, with the path of the offending value.
        OverflowError: ``limit`` is negative or beyond the machine's word.
    """

def canonical_json_text(text: str, limit: int) -> str:
    """The canonical JSON text of a JSON text. See :func:`canonical_json`; a key that occurs twice is refused too."""

def freeze_report(report: Report, limit: int) -> FrozenReport:
    """Read and check a report.

    Args:
        report: an outcome, ``Snooze`` or ``Release``.
        limit: the most bytes of a result or evidence.

    Raises:
        InvalidJob: one that cannot be read, or whatever reading it raises.
    """

def thaw_report(
    kind: str, text: str | None, retry: bool, wait: int | None, backoff: tuple[int, int, float] | None
) -> FrozenReport:
    """The inverse of pickling a :class:`FrozenReport`."""

def thaw_claim(
    names: tuple[str, str, str, str],
    payload: str,
    numbers: tuple[int, int, int, int, int, int | None, int | None],
    times: tuple[int | None, int, int],
    last_error: str | None,
) -> ClaimedJob:
    """The inverse of pickling a :class:`ClaimedJob`."""

def remote_token() -> CancellationToken:
    """A token that is aborted by :func:`abort_token` alone: of a job in a child process."""

def abort_token(token: CancellationToken, reason: str, detail: str | None) -> None:
    """Abort a token of :func:`remote_token`."""

def in_thread(call: Callable[[], _T]) -> Completion[_T]:
    """Have a thread of the engine's call a function. The completion has what it returns, or raises what it raises."""

def shut_down() -> None:
    """Let no thread of the engine's into the interpreter from here on, and wait up to 2 s for those inside: at exit."""

def sqlite_version() -> str:
    """The version of the SQLite library that is compiled in, as in ``"3.53.4"``; not that of the module ``sqlite3``."""

def migrate_postgres(url: str, schema: str) -> tuple[int, int]:
    """Bring a schema to the version of this bandog: the versions before and after. See :func:`bandog.migrate`."""

def migration_status_postgres(url: str, schema: str) -> tuple[int, int]:
    """The version of a schema, and that of this bandog. See :func:`bandog.migration_status`."""

def uninstall_postgres(url: str, schema: str) -> tuple[int, bool]:
    """Remove what migrating made. See :func:`bandog.migrating.uninstall`."""
