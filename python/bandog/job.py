"""What the producer ingests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime, timedelta

__all__ = ["Backoff", "Job"]


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a failed job waits: ``min(cap, base * 2 ** (charged - 1))``, shortened by up to ``jitter`` of itself.

    The defaults are those of the pull API (seed 2): one second, at most sixty.

    Attributes:
        base: seconds (float) or ``timedelta``, after the first charged attempt.
        cap: seconds (float) or ``timedelta``, the longest wait; not below ``base``.
        jitter: from 0.0 (none) to 1.0.
    """

    base: float | timedelta = 1.0
    cap: float | timedelta = 60.0
    jitter: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job to ingest. It is checked when it is ingested, as a whole and before anything is written.

    Two jobs are the same if their ``job_id``, ``queue``, ``lane``, ``priority``, ``payload`` (its canonical JSON) and
    budgets are: then the second one is a duplicate. The schedule, the back-off and the timeout do not count.

    Attributes:
        payload: any JSON value (dict with str keys, list, tuple, str, int, float, bool, None); at most 1 MiB as
            canonical JSON. It is data: nothing of it is imported, evaluated or unpickled.
        job_id: 1 to 255 characters without control characters; ``None`` makes one. A replay under it creates nothing.
        queue: what workers subscribe to; 1 to 255 characters. Default ``"default"``.
        lane: a stream inside the queue; 1 to 255 characters. Default ``"default"``.
        priority: a higher one runs first; 32 bits. Default 0.
        max_attempts: how many charged attempts the job has, at least 1; ``None`` (the default) makes a reported failure
            final.
        max_recoveries: how many lost claims are put back; ``None`` (the default) means one, or with ``max_attempts`` as
            many as there are attempts.
        available_at: an aware ``datetime``; the job does not run earlier. Not together with ``delay``.
        delay: seconds (float) or ``timedelta`` from the moment of the write, by the store's clock.
        backoff: the wait between attempts; ``None`` (the default) means ``Backoff()``.
        timeout: seconds (float) or ``timedelta`` that an executor may take; ``None`` (the default) means no bound.
    """

    payload: Any = None
    job_id: str | None = None
    queue: str = "default"
    lane: str = "default"
    priority: int = 0
    max_attempts: int | None = None
    max_recoveries: int | None = None
    available_at: datetime | None = None
    delay: float | timedelta | None = None
    backoff: Backoff | None = None
    timeout: float | timedelta | None = None
