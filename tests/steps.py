"""Steps that many tests take."""

import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

from face import BlockingQueue, BlockingWatchdog

import bandog

LEASE = 60.0
"""The usual lease here. Longer than any test takes, so that a store with a real clock does not lose one early."""

RECORD_FIELDS = (
    "job_id",
    "queue",
    "lane",
    "priority",
    "payload_json",
    "max_attempts",
    "max_recoveries",
    "admitted_at",
    "state",
    "available_at",
    "worker",
    "claimed_at",
    "lease_until",
    "cancel_requested_at",
    "cancel_reason",
    "settled_at",
    "outcome",
    "error",
    "attempts",
    "given_back",
    "recoveries",
    "charged",
)


def everything(record: bandog.JobRecord) -> dict[str, Any]:
    """All that a record shows, to compare two of them."""
    return {field: getattr(record, field) for field in RECORD_FIELDS}


def claim_one(
    queue: bandog.Queue, job_id: str | None = None, *, lease: float = LEASE, **options: Any
) -> bandog.ClaimedJob:
    """Claim exactly one job: the one that is due next, which must be ``job_id`` where that is given."""
    (claim,) = queue.claim(lease=lease, **options)
    assert job_id in (None, claim.job_id)
    return claim


def claimed_ids(queue: bandog.Queue, *, limit: int = 1000, **options: Any) -> list[str]:
    """The ids of all jobs that are due now, in the order of claiming, ``limit`` at a time."""
    ids: list[str] = []
    while claims := queue.claim(limit=limit, lease=LEASE, **options):
        assert len(claims) <= limit
        ids += [claim.job_id for claim in claims]
    return ids


def executor_of(answer: Any) -> Callable[[bandog.ClaimedJob, bandog.CancellationToken], Any]:
    """An executor that returns its argument, or raises it."""

    def execute(_job: bandog.ClaimedJob, _token: bandog.CancellationToken) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return execute


def watchdog(queue: bandog.Queue, execute: Callable[..., Any], **options: Any) -> bandog.Watchdog:
    """A runtime of the face that the queue has. The executor is a plain function."""
    if isinstance(queue, BlockingQueue):
        blocking: Any = BlockingWatchdog(queue, execute, **options)
        return blocking
    return bandog.Watchdog(queue, execute, **options)


def tick(queue: bandog.Queue, answer: Any, **options: Any) -> bandog.Tick:
    """One tick of a runtime of its own, whose executor returns or raises ``answer``."""
    return watchdog(queue, executor_of(answer), **options).tick()


def pickled(value: Any, protocol: int | None = None) -> Any:
    """The value as another process would get it."""
    return pickle.loads(pickle.dumps(value, protocol))  # noqa: S301 - made on the same line


def wait_until(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    """Wait for what another thread brings about."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain: {what}"
        time.sleep(0.001)


class Background:
    """A call in a thread of its own. Its answer or its exception is had from ``join``."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._answer: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self._answer = call()
        except BaseException as error:  # noqa: BLE001 - raised again in join
            self._error = error

    def join(self, seconds: float = 30.0) -> Any:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"the call did not return within {seconds} s"
        if self._error is not None:
            raise self._error
        return self._answer
