"""A job is refused through ``connection=`` where it is refused natively, for the same field and in the same words."""

import contextlib
import sqlite3
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import bandog
from bandog import Backoff, InvalidJob, Job
from bandog._native import core
from bandog.stores.admission import new_job

LIMIT = 1000


class Raises:
    """Reading what it has raises."""

    @property
    def jitter(self):
        message = "none here"
        raise LookupError(message)

    base = cap = jitter


class BrokenZone(tzinfo):
    def utcoffset(self, _when):
        message = "no offset"
        raise LookupError(message)


class Text(str):
    __slots__ = ()


class Seconds(float):
    pass


class Number(int):
    pass


ODD = st.sampled_from(
    [
        *(None, True, False, 0, -1, 1, 2**31, -(2**31), 2**31 - 1, 2**63, 10**400, Number(3)),
        *(0.5, -0.5, float("nan"), float("inf"), Seconds(0.25)),
        *("", "a", "a\nb", "\x7f", "\x85", "\ud800", "x" * 255, "x" * 256, "é" * 255, Text("sub"), b"x"),
        *(timedelta(seconds=-1), timedelta(days=40_000), timedelta(microseconds=1), [], {}, object),
    ]
)
TEXTS = st.text(max_size=4) | ODD
NUMBERS = st.integers() | st.floats() | ODD
DURATIONS = st.floats() | st.integers() | st.timedeltas() | ODD | st.floats(0, 1e-4)
TIMES = (
    st.datetimes(timezones=st.just(UTC) | st.just(timezone(timedelta(hours=14))))
    | st.sampled_from([datetime(2026, 1, 1), datetime(1, 1, 1, tzinfo=UTC)])  # noqa: DTZ001
    | ODD
)
BACKOFFS = (
    st.none()
    | st.builds(Backoff, DURATIONS, DURATIONS, st.floats() | st.just(0.5) | ODD)
    | st.builds(Backoff, st.just(1), st.just(9), NUMBERS)
    | st.just(Raises())
    | ODD
)
PAYLOADS = st.text(max_size=3) | st.sampled_from(
    [1, {"a": float("nan")}, {1: 2}, "x" * LIMIT, [object()], None, {"é": []}]
)


def mostly(good, odd):
    """Mostly what is allowed: otherwise the first field that is not hides all the others."""
    return st.one_of(st.just(good), st.just(good), st.just(good), odd)


FIELDS = st.fixed_dictionaries(
    {
        "job_id": mostly("a", TEXTS),
        "queue": mostly("q", TEXTS),
        "lane": mostly("l", TEXTS),
        "priority": mostly(0, NUMBERS),
        "payload": mostly(1, PAYLOADS),
        "max_attempts": mostly(None, NUMBERS),
        "max_recoveries": mostly(None, NUMBERS),
        "available_at": mostly(None, TIMES),
        "delay": mostly(None, DURATIONS),
        "backoff": mostly(None, BACKOFFS),
        "timeout": mostly(None, DURATIONS),
    }
)


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    """A queue that is closed: it reads and checks a job, and then stores nothing."""
    path = tmp_path_factory.mktemp("admission") / "jobs.sqlite"
    queue = bandog.connect(path, payload_limit=LIMIT)
    queue.close()
    yield queue
    with contextlib.closing(sqlite3.connect(path)) as reader:
        assert reader.execute("SELECT count(*) FROM bandog_job").fetchone() == (0,)


def verdict(check, job):
    """What is raised, in all its parts; ``None`` for nothing."""
    try:
        check(job)
    except InvalidJob as error:
        # The reason why something cannot be read is worded by each as it can.
        message = error.message.partition("cannot be read")[0]
        if error.job_id is not None:
            # What is behind it: each makes ids, and escapes odd ones, in its own way.
            start, _, message = message.rpartition('": ')
            assert start.startswith('job "')
        job_id = "made" if getattr(job, "job_id", "") is None and error.job_id is not None else error.job_id
        return type(error), error.field, job_id, message, getattr(error, "path", None)
    return None


def native_verdict(queue, job):
    return verdict(lambda job: queue.engine.ingest([job]), job)


def own_verdict(job):
    return verdict(lambda job: new_job(job, LIMIT), job)


@given(FIELDS)
@example({**dict.fromkeys(("max_attempts", "max_recoveries", "available_at", "backoff", "timeout")), "delay": 5e-7,
          "job_id": "a", "queue": "q", "lane": "l", "priority": 0, "payload": 1})  # fmt: skip
def test_the_verdict_is_the_same(native, fields):
    job = Job(**fields)
    assert own_verdict(job) == native_verdict(native, job)


@pytest.mark.parametrize("missing", ["job_id", "queue", "payload", "delay", "timeout", "backoff", "max_attempts"])
def test_what_has_not_all_the_fields_is_no_job(native, missing):
    fields = {name: getattr(Job(job_id="a"), name) for name in Job.__slots__}
    del fields[missing]
    job = SimpleNamespace(**fields)
    assert own_verdict(job) == native_verdict(native, job) is not None


def test_a_time_zone_that_raises_makes_no_aware_datetime(native):
    job = Job(job_id="a", available_at=datetime(2026, 1, 1, tzinfo=BrokenZone()))
    assert own_verdict(job) == native_verdict(native, job) is not None


DURATION = (
    st.floats(0, 1e6) | st.integers(0, 10**9) | st.timedeltas(timedelta(0), timedelta(days=36_000)) | st.floats(0, 1e-4)
)


@given(DURATION, DURATION, st.datetimes(datetime(1970, 1, 2), timezones=st.just(timezone(timedelta(hours=-5)))))  # noqa: DTZ001
@example(0.0000005, 2.5e-6, datetime(2026, 1, 1, tzinfo=UTC))
@example(1.0000005, 0.1234565, datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC))
def test_the_values_are_the_same(delay, base, at):
    """By way of a report, which the compiled module shows in its parts."""
    report = bandog.Failed("", retry_in=delay, backoff=Backoff(base, timedelta(days=36_600), 0.25))
    _, _, _, wait, backoff = core.freeze_report(report, LIMIT).__reduce__()[1]
    job = new_job(Job(delay=delay, backoff=report.backoff, payload={"b": 1, "a": 1.0}), LIMIT)
    assert (job.delay, tuple(job.backoff)) == (wait, backoff)
    assert job.payload == '{"a":1.0,"b":1}'
    at = min(at, datetime(9999, 12, 31, tzinfo=UTC))
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    expected = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    assert new_job(Job(available_at=at), LIMIT).due_at == expected
