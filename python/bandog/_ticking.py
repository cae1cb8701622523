"""One tick, step by step, once for both faces.

A step is a function without arguments: a call of the queue, the executor, a pause. The generator says what is next and
what an answer means; :func:`drive` carries the steps out in this thread, :func:`drive_async` awaits what they return.
"""

from __future__ import annotations

import contextvars
import inspect
import logging
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from bandog._operations import DEFAULT_LEASE, Call, default_worker, queue_names
from bandog._reports import as_report, of_error, readable
from bandog.errors import InvalidJob, StorageFull, StoreBusy, StoreError
from bandog.outcome import Release
from bandog.stores.running import Running

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from typing import TypeAlias

    from bandog._core import CancellationToken, ClaimedJob, JobRecord
    from bandog._operations import Seconds
    from bandog.outcome import Outcome, Report

    Step: TypeAlias = Callable[[], Any]
    Steps: TypeAlias = Generator[Step, Any, Any]
    IsAlive: TypeAlias = Callable[[JobRecord], object]

__all__ = ["Tick", "Ticking", "drive", "drive_async"]

logger = logging.getLogger("bandog.watchdog")


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
        unknown: id of the running job whose liveness probe raised. It was left as it is: unknown is not dead.
    """

    kind: str
    job_id: str | None = None
    outcome: Outcome | None = None
    recovered: tuple[str, ...] = ()
    interrupted: tuple[str, ...] = ()
    unknown: str | None = None


class Ticking:
    """What both faces of a watchdog share: the settings, and the steps of a tick."""

    _adopts = True

    def __init__(
        self,
        queue: Any,
        execute: Callable[[ClaimedJob, CancellationToken], Any],
        queues: Sequence[str] | str | None,
        lease: Seconds | None,
        worker: str | None,
        is_alive: IsAlive | None,
    ) -> None:
        if is_alive is not None and not callable(is_alive):
            message = f"is_alive: must be callable, not {type(is_alive).__name__}"
            raise InvalidJob(message, field="is_alive")
        if is_alive is not None and lease is not None:
            message = "lease: cannot be given together with is_alive, which stands for it"
            raise InvalidJob(message, field="lease")
        self._queue = queue
        self._execute = execute
        self._queues = queue_names(queues)
        self._is_alive = is_alive
        self._lease = None if is_alive is not None else DEFAULT_LEASE if lease is None else lease
        self._worker = default_worker() if worker is None else worker
        self._ticking = threading.Lock()
        self._probed: str | None = None
        self._running = Running()
        self._part = queue.engine.lock_runtime(self._lease, self._adopts)

    def close(self) -> None:
        """Make room for a runtime of another kind. Closing twice is allowed; the queue stays open."""
        self._part.release()

    def _is_interrupt(self, error: BaseException) -> bool:
        """Whether an error is meant for the host, and not a failure of the job alone."""
        return isinstance(error, KeyboardInterrupt)

    def _pause(self, seconds: float) -> Any:
        raise NotImplementedError

    def _in_context(self, job: ClaimedJob, token: CancellationToken) -> Any:
        """Run the executor in a copy of the caller's context.

        What it sets there is neither the next job's nor the host's.
        """
        return contextvars.copy_context().run(self._execute, job, token)

    def _steps(self) -> Steps:
        dead, lost, unknown = yield from self._probe()
        operations = self._queue.operations
        claims, tokens, recovered, interrupted = yield from _do(
            partial(operations.claim_kept, self._worker, self._queues, 1, self._lease)
        )
        recovered, interrupted = dead + recovered, lost + interrupted
        if not claims:
            kind = "idle" if unknown is None else "liveness_unknown"
            return Tick(kind=kind, recovered=recovered, interrupted=interrupted, unknown=unknown)
        (job,), (token,) = claims, tokens
        if token is None:
            kind, outcome = yield from self._record(job, None, Release())
        else:
            kind, outcome = yield from self._run(job, token)
        return Tick(
            kind=kind,
            job_id=job.job_id,
            outcome=outcome,
            recovered=recovered,
            interrupted=interrupted,
            unknown=unknown,
        )

    def _probe(self) -> Steps:
        """Ask the host about one running job, the oldest first and then in turn.

        In turn, so that one whose probe raises for ever does not keep the others from being recovered.
        """
        if self._is_alive is None:
            return (), (), None
        operations = self._queue.operations
        probed = yield from _do(partial(operations.probe, self._probed))
        if probed is None and self._probed is not None:
            probed = yield from _do(partial(operations.probe, None))
        if probed is None:
            self._probed = None
            return (), (), None
        record, self._probed, number, token = probed
        try:
            alive = yield from _do(partial(self._is_alive, record))
            if alive is None or inspect.isawaitable(alive):
                # A probe that forgot to answer, or was not awaited, knows nothing. Unknown is not dead.
                message = f"is_alive returned {type(alive).__name__}, which says neither alive nor dead"
                raise TypeError(message)  # noqa: TRY301 - as if it had raised by itself
        except Exception:
            logger.warning("the liveness probe of job %r raised; the job is left alone", record.job_id, exc_info=True)
            return (), (), record.job_id
        if alive:
            return (), (), None
        recovered, interrupted = yield from _do(partial(operations.recover_claim, number, token))
        return recovered, interrupted, None

    def _run(self, job: ClaimedJob, token: CancellationToken) -> Steps:
        """Run the executor and record what came of it. What interrupts the host is raised again once that is done."""
        interrupt: BaseException | None = None
        self._running.jobs[0] = job
        try:
            try:
                report = as_report((yield from _do(partial(self._in_context, job, token))))
            except BaseException as error:  # noqa: BLE001 - whatever it is, the job gets its outcome
                interrupt = error if self._is_interrupt(error) else None
                report = of_error(error, token)
            report = self._running.ended(0, report)
            try:
                settled = yield from self._record(job, token, report)
            except StoreError:
                raise
            except BaseException as error:  # noqa: BLE001 - a report that cannot be read is a failure too
                if self._is_interrupt(error):
                    # It may have come while the store was waited for: settling once more changes nothing then.
                    interrupt = error
                    try:
                        settled = yield from self._record(job, token, report)
                    except KeyboardInterrupt:
                        settled = yield from self._record(job, token, readable(report, error))
                else:
                    settled = yield from self._record(job, token, readable(report, error))
        finally:
            self._queue.engine.let_go(job)
        try:
            if interrupt is not None:
                raise interrupt
            return settled
        finally:
            interrupt = None  # as above: no frame keeps a traceback that keeps it

    def _record(self, job: ClaimedJob, token: CancellationToken | None, report: Report) -> Steps:
        """Settle; a store that is busy or full is tried again while the claim holds, since the work is done already."""
        pause = 0.05
        while True:
            try:
                (settlement,) = yield from _do(partial(self._queue.settle_many, [(job, report)]))
                break
            except (StoreBusy, StorageFull):
                if token is None or token.aborted:
                    raise
            yield from _do(partial(self._pause, pause))
            pause = min(pause * 2, 5.0)
        if settlement.kind == "not_found":
            return "stale", None
        if settlement.kind in {"retried", "snoozed", "released", "stale"}:
            return settlement.kind, None
        # What was recorded, which is not always what was reported: JSON has no tuples, the rules have a say, and the
        # executor may have settled the claim by itself.
        record: JobRecord = yield from _do(partial(self._queue.read, job.job_id))
        return "settled", record.outcome


def _do(step: Step) -> Steps:
    """One step: its value, or what it raised.

    Errors are sent, not thrown, into the steps: a thrown ``GeneratorExit``, which an executor may raise as well as
    anything, would close them.
    """
    value, error = yield step
    try:
        if error is not None:
            raise error
        return value
    finally:
        del value, error  # or the traceback would keep this frame, and this frame the traceback


def _waited(value: Any) -> Any:
    if isinstance(value, Call):
        return value.wait()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - of whatever type
    return value


def drive(steps: Steps) -> Any:
    """Carry the steps out in this thread."""
    try:
        step = next(steps)
        while True:
            answer: tuple[Any, BaseException | None]
            try:
                answer = (_waited(step()), None)
            except BaseException as error:  # noqa: BLE001 - the steps decide what it means
                answer = (None, error)
            step = steps.send(answer)
    except StopIteration as done:
        return done.value


async def drive_async(steps: Steps) -> Any:
    """Carry the steps out in this task."""
    try:
        step = next(steps)
        while True:
            answer: tuple[Any, BaseException | None]
            try:
                value: Any = step()
                answer = (await value if inspect.isawaitable(value) else value, None)
            except BaseException as error:  # noqa: BLE001 - the steps decide what it means
                answer = (None, error)
            step = steps.send(answer)
    except StopIteration as done:
        return done.value
