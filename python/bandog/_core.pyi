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
    "JobRecord",
    "__version__",
    "canonical_json",
    "canonical_json_text",
    "sqlite_version",
]

_T_co = TypeVar("_T_co", covariant=True)

_Seconds: TypeAlias = float | timedelta
_Claim: TypeAlias = ClaimedJob | tuple[str, str]
_AbortReason: TypeAlias = Literal["cancel_requested", "lease_lost", "shutdown", "timeout"]
_Renewed: TypeAlias = Literal["renewed", "stale", "not_found"]
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

    def ingest(self, jobs: list[Job]) -> Completion[list[Admission]]:
        """Store jobs in one transaction.

        Args:
            jobs: what to store; each is read before this returns, and may be changed afterwards.

        Returns:
            One admission per job, in order. All are durable when it completes.

        Raises:
            InvalidJob: the first job that no store may accept; ``PayloadError`` for its payload. Nothing was written.
            QueueClosed, StoreBusy, StorageFull, StoreFailed: by ``wait()``. Nothing was stored.
        """

    def claim(
        self, *, worker: str, queues: list[str] | None, limit: int, lease: _Seconds, keep: bool
    ) -> Completion[tuple[list[ClaimedJob], list[CancellationToken | None], tuple[str, ...], tuple[str, ...]]]:
        """Recover up to 100 lost claims, then claim due jobs.

        Args:
            worker: a name for the record, 1 to 255 characters.
            queues: the queues to look at, at least one; ``None`` for all of them.
            limit: the most jobs to claim, from 1 to 4294967295.
            lease: how long each claim holds without renewal, at least 0.5 s.
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
            limit: the most claims to deal with, from 0 to 4294967295.

        Returns:
            ``(recovered, interrupted)``, as for :meth:`claim`.

        Raises:
            OverflowError: ``limit`` is out of range.
            QueueClosed, StoreBusy, StorageFull, StoreFailed: by ``wait()``. Nothing was recovered.
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

    def close(self) -> None:
        """Stop renewing, finish what was asked for, and let go of the database.

        Closing twice is allowed; in a forked child it does nothing.
        """

@final
class Completion(Generic[_T_co]):
    """The result of one operation, on its way.

    Generic for checkers only: at run time it cannot be subscripted.
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
    def kind(self) -> Literal["admitted", "duplicate", "conflict"]:
        """What became of it.

        ``admitted``: it is stored. ``duplicate``: the same job was stored already. ``conflict``: its id is taken by
        other content, and nothing was changed.
        """

    @property
    def job_id(self) -> str:
        """The job's id: the one that was given, or the one that was made."""

    @property
    def job(self) -> JobRecord:
        """The stored job as it is now; under ``conflict`` the one that holds the id."""

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
        """While ``running``, when the claim ends unless it is renewed."""

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

def sqlite_version() -> str:
    """The version of the SQLite library that is compiled in, as in ``"3.53.4"``; not that of the module ``sqlite3``."""
