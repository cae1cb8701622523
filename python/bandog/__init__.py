"""A durable job queue: one API and one meaning on every store.

``connect`` opens a queue, ``Queue`` admits, claims and settles, ``Watchdog`` runs one job per tick.
"""

from bandog._native import core as _core_module
from bandog.errors import (
    BandogError,
    CannotOpen,
    ForkedQueue,
    InvalidJob,
    JobAborted,
    JobConflict,
    JobNotFound,
    NativeModuleMissing,
    PayloadError,
    QueueClosed,
    SchemaMismatch,
    StaleClaim,
    StorageFull,
    StoreBusy,
    StoreError,
    StoreFailed,
)
from bandog.job import Backoff, Job
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
from bandog.watchdog import Tick, Watchdog

__version__ = _core_module.__version__

Admission = _core_module.Admission
CancellationToken = _core_module.CancellationToken
ClaimedJob = _core_module.ClaimedJob
JobRecord = _core_module.JobRecord

__all__ = [
    "Admission",
    "Backoff",
    "BandogError",
    "CancellationToken",
    "Cancelled",
    "CannotOpen",
    "ClaimedJob",
    "Completed",
    "Failed",
    "ForkedQueue",
    "Interrupted",
    "InvalidJob",
    "Job",
    "JobAborted",
    "JobConflict",
    "JobNotFound",
    "JobRecord",
    "NativeModuleMissing",
    "OutcomeUnknown",
    "PayloadError",
    "Queue",
    "QueueClosed",
    "Release",
    "SchemaMismatch",
    "Settlement",
    "Snooze",
    "StaleClaim",
    "StorageFull",
    "StoreBusy",
    "StoreError",
    "StoreFailed",
    "Tick",
    "Watchdog",
    "__version__",
    "connect",
]
