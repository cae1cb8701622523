"""The tick-driven runtime of the first seed: the host owns the timer, each tick runs at most one job."""

from __future__ import annotations

import threading
import time
import traceback as tracebacks
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from bandog.errors import StorageFull, StoreBusy, StoreError
from bandog.outcome import Cancelled, Completed, Failed, Interrupted, Outcome, OutcomeUnknown, Release, Report, Snooze
from bandog.queue import DEFAULT_LEASE, Queue, default_worker, queue_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta
    from types import TracebackType
    from typing import Self

    from bandog._core import CancellationToken, ClaimedJob

    Execute: TypeAlias = Callable[[ClaimedJob, CancellationToken], Report | None]

__all__ = ["Tick", "Watchdog"]

_REPORTS = (Completed, Failed, Cancelled, OutcomeUnknown, Snooze, Release)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What one tick did.

    Attributes:
        kind: ``idle`` (no job was due), ``busy`` (another tick of this runtime was under way), ``settled``,
            ``retried``, ``snoozed``, ``released``, or ``stale`` (the claim was lost before its report was recorded).
        job_id: the job that was run; ``None`` for ``idle`` and ``busy``.
        outcome: what was recorded, for ``settled``; ``None`` otherwise.
        recovered: ids of jobs whose lost claims were put back.
        interrupted: ids of jobs whose claims were lost with no recovery left.
    """

    kind: str
    job_id: str | None = None
    outcome: Outcome | None = None
    recovered: tuple[str, ...] = ()
    interrupted: tuple[str, ...] = ()


class Watchdog:
    """Runs one job per :meth:`tick`. A context manager; the queue stays the caller's to close.

    While an executor runs, its claim is renewed by a native thread, whatever the executor does to the interpreter.
    """

    def __init__(
        self,
        queue: Queue,
        execute: Execute,
        *,
        queues: Sequence[str] | str | None = None,
        lease: float | timedelta = DEFAULT_LEASE,
        worker: str | None = None,
    ) -> None:
        """Make a runtime.

        Args:
            queue: an open queue.
            execute: called with the claimed job and its cancellation token, in the thread of :meth:`tick`. It returns
                an outcome, or ``None`` for ``Completed()``; raising means ``Failed``.
            queues: the queues to run; ``None`` (the default) for all of them.
            lease: seconds (float) or ``timedelta`` after which the job of a dead runtime is recovered. Default 120.
            worker: a name for the record; ``None`` for host and process.
        """
        self._queue = queue
        self._execute = execute
        self._queues = queue_names(queues)
        self._lease = lease
        self._worker = default_worker() if worker is None else worker
        self._ticking = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Nothing to let go of: a tick cleans up after itself."""

    def tick(self) -> Tick:
        """Recover lost claims, then claim and run one job. Single-flight: a second tick meanwhile returns ``busy``.

        An exception of the executor is a failure of the job, ``SystemExit`` included; ``KeyboardInterrupt`` is recorded
        as one and then raised again, so that Ctrl-C stops the host.

        Raises:
            StoreBusy, StorageFull, StoreFailed: nothing was claimed; or, after an executor has returned, its outcome
                could not be recorded before the lease ended: the job is recovered within its budgets.
        """
        if not self._ticking.acquire(blocking=False):
            return Tick(kind="busy")
        try:
            return self._tick()
        finally:
            self._ticking.release()

    def _tick(self) -> Tick:
        engine = self._queue.engine
        claims, tokens, recovered, interrupted = engine.claim(
            worker=self._worker,
            queues=self._queues,
            limit=1,
            lease=self._lease,
            keep=True,
        ).wait()
        if not claims:
            return Tick(kind="idle", recovered=recovered, interrupted=interrupted)
        (job,), (token,) = claims, tokens
        if token is None:
            kind, outcome = self._record(job, None, Release())
        else:
            kind, outcome = self._run(job, token)
        return Tick(kind=kind, job_id=job.job_id, outcome=outcome, recovered=recovered, interrupted=interrupted)

    def _run(self, job: ClaimedJob, token: CancellationToken) -> tuple[str, Outcome | None]:
        """Run the executor and record what came of it. Ctrl-C is raised again once that is done."""
        interrupt: KeyboardInterrupt | None = None
        try:
            try:
                report = _as_report(self._execute(job, token))
            except KeyboardInterrupt as error:
                interrupt, report = error, failure(error)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the job gets its outcome
                report = failure(error)
            try:
                settled = self._record(job, token, report)
            except StoreError:
                raise
            except KeyboardInterrupt as error:
                # It may have come while the store was waited for: settling once more changes nothing then.
                interrupt = error
                try:
                    settled = self._record(job, token, report)
                except KeyboardInterrupt:
                    settled = self._record(job, token, _readable(report, error))
            except BaseException as error:  # noqa: BLE001 - a report that cannot be read is a failure too
                settled = self._record(job, token, _readable(report, error))
        finally:
            self._queue.engine.let_go(job)
        if interrupt is not None:
            raise interrupt
        return settled

    def _record(self, job: ClaimedJob, token: CancellationToken | None, report: Report) -> tuple[str, Outcome | None]:
        """Settle; a store that is busy or full is tried again while the claim holds, since the work is done already."""
        pause = 0.05
        while True:
            try:
                (settlement,) = self._queue.settle_many([(job, report)])
                break
            except (StoreBusy, StorageFull):
                if token is None or token.aborted:
                    raise
                time.sleep(pause)
                pause = min(pause * 2, 5.0)
        if settlement.kind == "not_found":
            return "stale", None
        if settlement.kind in {"retried", "snoozed", "released", "stale"}:
            return settlement.kind, None
        if settlement.kind == "completed" and report == Completed():
            return "settled", report
        # What was recorded, which is not always what was reported: JSON has no tuples, and the rules have a say.
        return "settled", self._queue.read(job.job_id).outcome


def _as_report(value: Any) -> Report:
    if value is None:
        return Completed()
    if isinstance(value, _REPORTS):
        return value
    if isinstance(value, Interrupted):
        return Failed("the executor returned Interrupted, which only recovery may record", retry=False)
    return Failed(
        f"the executor returned {type(value).__name__}, which is no outcome: return Completed(result) to keep a result",
        retry=False,
    )


def _readable(report: Report, error: BaseException) -> Report:
    """In place of a report that raised when it was read. What is unknown stays unknown; the rest is a final failure."""
    reason = failure(error).reason
    if isinstance(report, OutcomeUnknown):
        return OutcomeUnknown(f"evidence not storable: {reason}")
    return Failed(f"the outcome cannot be recorded: {reason}", retry=False)


def failure(error: BaseException) -> Failed:
    """The failure that an exception means: its type, message and where it was raised. No frame is kept alive."""
    try:
        summary = "".join(tracebacks.format_exception_only(error)).strip()
        frames = tracebacks.extract_tb(error.__traceback__)
        where = f" (at {frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""
    except Exception:  # noqa: BLE001 - a __str__ that raises must not cost the job its outcome
        summary, where = type(error).__name__, ""
    return Failed(f"{summary}{where}")
