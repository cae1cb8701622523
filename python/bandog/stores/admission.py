"""What may be stored, decided before any SQL: the twin of ``rust/admission.rs``, and of how ``rust/py/convert.rs``
reads a job, with the same verdicts in the same words, held to them by ``tests/transaction/test_admission.py``.

Payloads and reports are read by the compiled module itself.
"""

from __future__ import annotations

import json
import math
import random
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from bandog._native import core
from bandog.errors import InvalidJob, PayloadError
from bandog.stores.records import EPOCH
from bandog.stores.transition import Backoff

if TYPE_CHECKING:
    from bandog.job import Job

__all__ = ["NewJob", "new_job"]

LONGEST_NAME = 255
LATEST = 253_402_300_799_999_999
LONGEST_DURATION = 100 * 366 * 86_400 * 1_000_000
MOST = 2**31 - 1


class NewJob(NamedTuple):
    """A job that may be stored. Times and durations are whole microseconds; the payload is canonical JSON.

    ``due_at`` is a wall time; where it is ``None`` the job is due ``delay`` after the moment of the write.
    """

    job_id: str
    queue: str
    lane: str
    priority: int
    payload: str
    max_attempts: int | None
    max_recoveries: int | None
    backoff: Backoff | None
    timeout: int | None
    due_at: int | None
    delay: int


def new_job(job: Job, payload_limit: int) -> NewJob:
    """Read and check a job.

    Raises:
        InvalidJob: the first field that no store may accept; ``PayloadError`` for the payload.
    """
    given = _attribute(job, "job_id", "job_id")
    job_id = _new_id() if given is None else _text(given, "job_id")
    try:
        return _checked(_read(job, job_id, payload_limit))
    except PayloadError as error:
        raise PayloadError(_of(job_id, error), field=error.field, path=error.path, job_id=job_id) from None
    except InvalidJob as error:
        raise InvalidJob(_of(job_id, error), field=error.field, job_id=job_id) from None


def _of(job_id: str, error: InvalidJob) -> str:
    return f"job {json.dumps(job_id, ensure_ascii=False)}: {error.message}"


def _read(job: Job, job_id: str, payload_limit: int) -> NewJob:
    due_at: int | None = None
    wait = 0
    available_at, delay = _attribute(job, "available_at"), _attribute(job, "delay")
    if available_at is not None and delay is not None:
        _invalid("delay", "cannot be given together with available_at")
    if available_at is not None:
        due_at = _instant(available_at, "available_at")
    elif delay is not None:
        wait = _duration(delay, "delay")
    timeout, payload = _attribute(job, "timeout"), _attribute(job, "payload")
    return NewJob(
        job_id=job_id,
        queue=_text(_attribute(job, "queue"), "queue"),
        lane=_text(_attribute(job, "lane"), "lane"),
        priority=_integer(_attribute(job, "priority"), "priority", -MOST - 1, MOST),
        payload=core.canonical_json(payload, payload_limit),
        max_attempts=_count(_attribute(job, "max_attempts"), "max_attempts"),
        max_recoveries=_count(_attribute(job, "max_recoveries"), "max_recoveries"),
        backoff=_backoff(_attribute(job, "backoff")),
        timeout=None if timeout is None else _duration(timeout, "timeout"),
        due_at=due_at,
        delay=wait,
    )


def _checked(job: NewJob) -> NewJob:
    _name(job.job_id, "job_id")
    _name(job.queue, "queue")
    _name(job.lane, "lane")
    if job.max_attempts == 0:
        _invalid("max_attempts", "must be at least 1, or None for no retries")
    if job.timeout is not None:
        _bounded(job.timeout, "timeout")
        if job.timeout == 0:
            _invalid("timeout", "must be longer than 0 seconds, or None for none")
    if job.due_at is None:
        _bounded(job.delay, "delay")
    elif not 0 <= job.due_at <= LATEST:
        _invalid("available_at", "must be from 1970 to 9999")
    return job


def _invalid(field: str, problem: str) -> NoReturn:
    message = f"{field}: {problem}"
    raise InvalidJob(message, field=field)


def _attribute(value: Any, name: str, field: str | None = None) -> Any:
    try:
        return getattr(value, name)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong in reading it, the caller's object is at fault
        _invalid(field or name, f"cannot be read: {type(error).__name__}: {error}")


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        _invalid(field, f"must be a str, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        _invalid(field, "must be valid Unicode: it contains a lone surrogate")
    return str(value)


def _name(value: str, field: str) -> None:
    if not value:
        _invalid(field, "must not be empty")
    if len(value) > LONGEST_NAME:
        _invalid(field, f"must have at most {LONGEST_NAME} characters")
    for character in value:
        code = ord(character)
        if code < 0x20 or 0x7F <= code < 0xA0:  # noqa: PLR2004 - the control characters
            _invalid(field, f"must not contain control characters (found U+{code:04X})")


def _integer(value: Any, field: str, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        _invalid(field, f"must be an int, not {type(value).__name__}")
    if not least <= value <= most:
        _invalid(field, f"must be from {least} to {most}")
    return int(value)


def _count(value: Any, field: str) -> int | None:
    return None if value is None else _integer(value, field, 0, MOST)


def _duration(value: Any, field: str) -> int:
    if isinstance(value, bool):
        _invalid(field, "must be seconds (int or float) or a timedelta, not bool")
    if isinstance(value, (int, float)):
        try:
            micros = float(value) * 1e6
        except OverflowError:
            _invalid(field, "is out of range")
        if not math.isfinite(micros) or abs(micros) > 4.6e18:  # noqa: PLR2004 - 2^62: far beyond all that is allowed
            _invalid(field, "must be a finite number of seconds")
        # Half a microsecond counts as one, away from zero: `round` would go to the even neighbour.
        whole = math.trunc(micros)
        return whole + (int(math.copysign(1, micros)) if abs(micros - whole) >= 0.5 else 0)  # noqa: PLR2004 - a half
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    _invalid(field, f"must be seconds (int or float) or a timedelta, not {type(value).__name__}")


def _bounded(value: int, field: str) -> None:
    if not 0 <= value <= LONGEST_DURATION:
        _invalid(field, "must be from 0 seconds to 100 years")


def _instant(value: Any, field: str) -> int:
    if not isinstance(value, datetime):
        _invalid(field, f"must be a datetime, not {type(value).__name__}")
    try:
        is_aware = value.utcoffset() is not None
    except Exception:  # noqa: BLE001 - a tzinfo that raises tells nothing
        is_aware = False
    if not is_aware:
        _invalid(field, "must be an aware datetime: give it a tzinfo, such as datetime.timezone.utc")
    return (value - EPOCH) // timedelta(microseconds=1)


def _backoff(value: Any) -> Backoff | None:
    if value is None:
        return None
    jitter = _attribute(value, "jitter", "backoff jitter")
    base = _duration(_attribute(value, "base", "backoff base"), "backoff base")
    cap = _duration(_attribute(value, "cap", "backoff cap"), "backoff cap")
    if isinstance(jitter, bool):
        _invalid("backoff jitter", "must be a number from 0 to 1, not bool")
    if isinstance(jitter, (str, bytes)):  # `float` would take them
        _invalid("backoff jitter", "must be a number from 0 to 1")
    try:
        share = float(jitter)
    except (TypeError, ValueError, OverflowError):
        _invalid("backoff jitter", "must be a number from 0 to 1")
    _bounded(base, "backoff base")
    _bounded(cap, "backoff cap")
    if cap < base:
        _invalid("backoff cap", "must not be below the base")
    if not 0.0 <= share <= 1.0:
        _invalid("backoff jitter", "must be from 0 to 1")
    return Backoff(base, cap, share)


def _new_id() -> str:
    """A UUID of version 7: ids that are made one after the other lie side by side in the index."""
    import uuid  # noqa: PLC0415 - most jobs bring an id where it matters

    milliseconds = time.time_ns() // 1_000_000
    bits = random.SystemRandom().getrandbits(74)
    high = (milliseconds & (1 << 48) - 1) << 16 | 7 << 12 | bits >> 62
    return str(uuid.UUID(int=high << 64 | 2 << 62 | bits & (1 << 62) - 1))
