"""Everything that bandog raises.

::

    BandogError
    ├── InvalidJob (ValueError)      a field or argument that no store may accept; nothing was written
    │   └── PayloadError             a payload that is not storable JSON, with the path of the offending value
    ├── JobConflict                  the job_id is taken by other content; nothing was changed
    ├── LaneFull                     the lane holds as many queued jobs as it may; the job was not stored
    ├── RequeueRefused               the job is no dead letter; nothing was changed
    ├── JobNotFound (LookupError)    no such job: never admitted, or purged
    ├── StaleClaim                   the claim has ended; nothing was changed
    ├── JobAborted                   raised by CancellationToken.raise_if_aborted()
    ├── WorkerStateError             the worker was started before
    ├── QueueClosed                  the queue was closed
    ├── ForkedQueue                  the queue was opened before a fork and used in the child
    ├── NativeModuleMissing          the compiled part of bandog cannot be loaded (ImportError)
    └── StoreError
        ├── CannotOpen (OSError)     not a usable file or server, or no rights to the schema
        ├── SchemaMismatch           tables of another version
        ├── RuntimeConflict          another runtime is at work that this one does not go with
        ├── StoreBusy                another connection kept the write lock for the whole timeout
        ├── StorageFull              no room left
        └── StoreFailed              the database refused (the role may not do that, for one) or failed

Each has its facts as attributes, and a message that says what happened, to which job or file, and what to do. Messages
never contain passwords, lease tokens or payloads.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BandogError",
    "CannotOpen",
    "ForkedQueue",
    "InvalidJob",
    "JobAborted",
    "JobConflict",
    "JobNotFound",
    "LaneFull",
    "NativeModuleMissing",
    "PayloadError",
    "QueueClosed",
    "RequeueRefused",
    "RuntimeConflict",
    "SchemaMismatch",
    "StaleClaim",
    "StorageFull",
    "StoreBusy",
    "StoreError",
    "StoreFailed",
    "WorkerStateError",
]


class BandogError(Exception):
    """The root of all errors of bandog.

    Attributes:
        message (str): what happened, and what to do.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors cross process boundaries with their fields."""
        return _rebuild, (type(self), self.__dict__.copy())


def _rebuild(cls: type[BandogError], fields: dict[str, Any]) -> BandogError:
    error = cls.__new__(cls, fields["message"])
    error.args = (fields["message"],)
    error.__dict__.update(fields)
    return error


class InvalidJob(BandogError, ValueError):
    """A field of a job, or an argument of a call, that no store may accept. Nothing was written.

    Attributes:
        field (str): the field or argument.
        job_id (str | None): the job, where there is one.
    """

    def __init__(self, message: str, *, field: str, job_id: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.job_id = job_id


class PayloadError(InvalidJob):
    """A payload that is not storable JSON. Nothing was written.

    Attributes:
        path (str): where the offending value stands, as in ``$.items[3].price``.
    """

    def __init__(self, message: str, *, field: str, path: str, job_id: str | None = None) -> None:
        super().__init__(message, field=field, job_id=job_id)
        self.path = path


class JobConflict(BandogError):
    """The same ``job_id`` with other content. Nothing was changed.

    Attributes:
        job_id (str): the contested id.
        difference (str): the fields that differ, as in ``"payload, priority"``.
    """

    def __init__(self, message: str, *, job_id: str, difference: str) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.difference = difference


class LaneFull(BandogError):
    """The lane holds as many queued jobs as it may. The job was not stored; try again when some have run.

    Attributes:
        job_id (str): the job that was refused.
        queue (str): its queue.
        lane (str): its lane.
        limit (int): how many jobs may be queued there.
    """

    def __init__(self, message: str, *, job_id: str, queue: str, lane: str, limit: int) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.queue = queue
        self.lane = lane
        self.limit = limit


class RequeueRefused(BandogError):
    """The job is no dead letter. Nothing was changed.

    Attributes:
        job_id (str): the job.
        outcome (str | None): the kind of its outcome; ``None`` where it has none yet.
    """

    def __init__(self, message: str, *, job_id: str, outcome: str | None) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.outcome = outcome


class JobNotFound(BandogError, LookupError):
    """There is no such job: it was never admitted, or it has been purged.

    Attributes:
        job_id (str): the id that was looked up.
    """

    def __init__(self, message: str, *, job_id: str) -> None:
        super().__init__(message)
        self.job_id = job_id


class StaleClaim(BandogError):
    """The claim has ended: its lease expired, or another claim replaced it. Nothing was changed.

    Attributes:
        job_id (str): the job that the claim was for.
    """

    def __init__(self, message: str, *, job_id: str) -> None:
        super().__init__(message)
        self.job_id = job_id


class JobAborted(BandogError):
    """Raised by ``CancellationToken.raise_if_aborted()`` in an executor that should stop.

    Attributes:
        reason (str): ``cancel_requested``, ``lease_lost``, ``shutdown`` or ``timeout``.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the job should stop: {reason}")
        self.reason = reason


class WorkerStateError(BandogError):
    """A worker was started that had been started before.

    Attributes:
        state (str): what it does now.
    """

    def __init__(self, message: str, *, state: str) -> None:
        super().__init__(message)
        self.state = state


class QueueClosed(BandogError):
    """The queue was closed."""


class ForkedQueue(BandogError):
    """The queue was opened before a fork and used in the child.

    Attributes:
        opened_by (int): the id of the process that opened it.
    """

    def __init__(self, message: str, *, opened_by: int) -> None:
        super().__init__(message)
        self.opened_by = opened_by


class NativeModuleMissing(BandogError, ImportError):
    """The compiled part of bandog cannot be loaded on this interpreter."""


class StoreError(BandogError):
    """Something about the database.

    Attributes:
        target (str): the file or server, without secrets.
    """

    def __init__(self, message: str, *, target: str) -> None:
        super().__init__(message)
        self.target = str(target)


class CannotOpen(StoreError, OSError):
    """The file or server cannot be used as a store, or this role has no rights to its schema. It was not touched."""


class SchemaMismatch(StoreError):
    """The tables are of another version than this bandog's. Nothing was changed."""


class RuntimeConflict(StoreError):
    """Another runtime is at work on the file, and the two do not go together. Nothing was changed."""


class StoreBusy(StoreError):
    """Another connection kept the write lock for the whole timeout. Nothing was changed.

    Attributes:
        waited (float): seconds.
    """

    def __init__(self, message: str, *, target: str, waited: float) -> None:
        super().__init__(message, target=target)
        self.waited = waited


class StorageFull(StoreError):
    """No room left for a write. Nothing was changed."""


class StoreFailed(StoreError):
    """The database refused or failed; the transaction was rolled back. Also for what a role has no right to."""
