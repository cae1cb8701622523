"""A durable job queue: one API and one meaning on every store.

``connect`` opens a queue, ``Queue`` admits, claims and settles, ``Watchdog`` runs one job per tick.
"""

from typing import TYPE_CHECKING, Any

from bandog._native import core as _core_module
from bandog.answers import Cancellation, FailedLane, Page, QueueStats, Snapshot, Stats
from bandog.errors import (
    BandogError,
    CannotOpen,
    ForkedQueue,
    InvalidJob,
    JobAborted,
    JobConflict,
    JobNotFound,
    LaneFull,
    NativeModuleMissing,
    PayloadError,
    QueueClosed,
    RequeueRefused,
    RuntimeConflict,
    SchemaMismatch,
    StaleClaim,
    StorageFull,
    StoreBusy,
    StoreError,
    StoreFailed,
    WorkerStateError,
)
from bandog.events import Event, WorkerStats
from bandog.job import Backoff, Job
from bandog.migrating import MigrationStatus, migrate, migration_status
from bandog.outcome import (
    Cancelled,
    Completed,
    Failed,
    Interrupted,
    OutcomeUnknown,
    Release,
    Settlement,
    Snooze,
)
from bandog.queue import Queue, connect
from bandog.tasks import Task, Tasks
from bandog.timer import Timer
from bandog.watchdog import Tick, Watchdog

if TYPE_CHECKING:
    from bandog.async_queue import AsyncQueue, connect_async
    from bandog.async_timer import AsyncTimer
    from bandog.async_watchdog import AsyncWatchdog
    from bandog.worker import Worker

__version__ = _core_module.__version__

_ASYNC = {
    "AsyncQueue": "async_queue",
    "AsyncTimer": "async_timer",
    "AsyncWatchdog": "async_watchdog",
    "connect_async": "async_queue",
    "Worker": "worker",
}


def __getattr__(name: str) -> Any:
    """The names for coroutines, loaded when they are used: asyncio takes longer to import than all of bandog."""
    if name in _ASYNC:
        from importlib import import_module  # noqa: PLC0415 - as above

        return getattr(import_module(f"bandog.{_ASYNC[name]}"), name)
    message = f"module 'bandog' has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    """Those names included that are not loaded yet."""
    return sorted({*globals(), *_ASYNC})


Admission = _core_module.Admission
CancellationToken = _core_module.CancellationToken
ClaimedJob = _core_module.ClaimedJob
JobRecord = _core_module.JobRecord

__all__ = [
    "Admission",
    "AsyncQueue",
    "AsyncTimer",
    "AsyncWatchdog",
    "Backoff",
    "BandogError",
    "Cancellation",
    "CancellationToken",
    "Cancelled",
    "CannotOpen",
    "ClaimedJob",
    "Completed",
    "Event",
    "Failed",
    "FailedLane",
    "ForkedQueue",
    "Interrupted",
    "InvalidJob",
    "Job",
    "JobAborted",
    "JobConflict",
    "JobNotFound",
    "JobRecord",
    "LaneFull",
    "MigrationStatus",
    "NativeModuleMissing",
    "OutcomeUnknown",
    "Page",
    "PayloadError",
    "Queue",
    "QueueClosed",
    "QueueStats",
    "Release",
    "RequeueRefused",
    "RuntimeConflict",
    "SchemaMismatch",
    "Settlement",
    "Snapshot",
    "Snooze",
    "StaleClaim",
    "Stats",
    "StorageFull",
    "StoreBusy",
    "StoreError",
    "StoreFailed",
    "Task",
    "Tasks",
    "Tick",
    "Timer",
    "Watchdog",
    "Worker",
    "WorkerStateError",
    "WorkerStats",
    "__version__",
    "connect",
    "connect_async",
    "migrate",
    "migration_status",
]
