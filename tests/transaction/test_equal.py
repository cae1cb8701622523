"""The same calls natively and through ``connection=`` leave the same rows and give the same answers."""

import contextlib
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from through import ThroughConnection

import bandog
from bandog import Backoff, BandogError, Cancelled, Completed, Failed, Job, OutcomeUnknown, Release, Snooze
from bandog.testing import FakeClock

TABLES = ("job", "ready", "lease", "outcome", "counter", "clock", "lane_limit")

NAMES = st.sampled_from(["a", "b", "c", "ü", "d e"])
LANES = st.sampled_from(["default", "narrow", "wide"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**60) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
SECONDS = st.sampled_from([0, 0.5, 1, 30, 86400])
BACKOFFS = st.none() | st.builds(lambda base, more: Backoff(base, base + more), SECONDS, SECONDS)

JOBS = st.builds(
    Job,
    payload=VALUES | st.just(1),
    job_id=NAMES,
    queue=st.sampled_from(["default", "q"]),
    lane=LANES,
    priority=st.integers(-1, 1),
    max_attempts=st.none() | st.integers(1, 3),
    max_recoveries=st.none() | st.integers(0, 2),
    delay=st.none() | SECONDS,
    backoff=BACKOFFS,
    timeout=st.none() | st.just(5),
)
REPORTS = st.one_of(
    st.builds(Completed, VALUES | st.just(object)),
    st.builds(
        Failed,
        st.text(max_size=3),
        retry=st.booleans() | st.just(True),
        retry_in=st.none() | SECONDS,
        backoff=BACKOFFS,
    ),
    st.builds(Cancelled, st.none() | st.text(max_size=3)),
    st.builds(OutcomeUnknown, VALUES | st.just(object)),
    st.builds(Snooze, SECONDS),
    st.just(Release()),
)
CALLS = st.one_of(
    st.tuples(st.just("ingest"), JOBS),
    st.tuples(st.just("ingest_many"), st.lists(JOBS, max_size=4)),
    st.tuples(st.just("claim"), st.integers(1, 3)),
    st.tuples(st.just("settle"), st.integers(0, 5), REPORTS, st.sampled_from(["object", "pair"])),
    st.tuples(st.just("cancel"), NAMES),
    st.tuples(st.just("requeue"), NAMES),
    st.tuples(st.just("recover")),
    st.tuples(st.just("advance"), st.sampled_from([0.25, 1, 61, 3600])),
    st.tuples(st.just("set_lane_limit"), LANES, st.none() | st.integers(0, 2)),
)


class Side:
    """One of the two: a file, a clock, and the claims that were made in it."""

    def __init__(self, folder, name):
        self.clock = FakeClock()
        self.path = folder / f"{name}.sqlite"
        self.opened = bandog.connect(self.path, clock=self.clock)
        self.queue = self.opened if name == "native" else ThroughConnection(self.opened, self.path)
        self.claims = []

    def do(self, call):
        """The answer, as text."""
        name, *arguments = call
        try:
            return getattr(self, name)(*arguments)
        except BandogError as error:
            return f"{type(error).__name__}: {error}"

    def ingest(self, job):
        return shown(self.queue.ingest(job))

    def ingest_many(self, jobs):
        return [shown(admission) for admission in self.queue.ingest_many(jobs)]

    def claim(self, limit):
        claims = self.queue.claim("w", limit=limit, lease=60)
        self.claims += claims
        return [(claim.job_id, claim.attempt) for claim in claims]

    def settle(self, place, report, how):
        if not self.claims:
            return None
        claim = self.claims[-1 - place % len(self.claims)]
        return self.queue.settle(claim if how == "object" else (claim.job_id, claim.lease_token), report)

    def cancel(self, job_id):
        return self.queue.cancel(job_id)

    def recover(self):
        return self.queue.recover()

    def requeue(self, job_id):
        return self.queue.requeue(job_id, force=True)

    def advance(self, seconds):
        self.clock.advance(seconds)

    def set_lane_limit(self, lane, limit):
        self.queue.set_lane_limit("q", lane, limit)

    def rows(self):
        """Every row, with the token of each claim call as its number."""
        tokens = {claim.lease_token: f"token of {claim.job_id} {claim.attempt}" for claim in reversed(self.claims)}
        with closing(sqlite3.connect(self.path)) as reader:
            return {
                table: [
                    tuple(tokens.get(value, value) for value in row)
                    for row in reader.execute(f"SELECT * FROM bandog_{table} ORDER BY 1, 2")  # noqa: S608 - of the list above
                ]
                for table in TABLES
            }


def shown(admission):
    """What an admission says, all of it."""
    job = admission.job
    names = [] if job is None else [name for name in dir(job) if not name.startswith("_")]
    fields = {name: getattr(job, name) for name in names}
    return admission.kind, admission.job_id, admission.limit, admission.difference, repr(fields)


RETRIED = Job(job_id="a", max_attempts=9, backoff=Backoff(7, 7))
PUT_BACK_SINCE = [
    ("ingest", RETRIED),
    ("claim", 1),
    ("settle", 0, Failed("why", retry_in=0), "object"),
    ("claim", 1),
    ("advance", 61),
    ("recover",),
    # The first claim again: its report was recorded, and where the job waits now is not what was answered then.
    ("settle", 1, Failed("why"), "object"),
]
OWN_BACKOFF = [("ingest", RETRIED), ("claim", 1), ("settle", 0, Failed("why", backoff=Backoff(3, 3)), "object")]


@given(st.lists(CALLS, max_size=25))
@example(PUT_BACK_SINCE)
@example(OWN_BACKOFF)
def test_the_same_calls_leave_the_same_rows(calls):
    folder = Path(tempfile.mkdtemp(prefix="bandog-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))  # noqa: S108
    try:
        native, ours = Side(folder, "native"), Side(folder, "ours")
        with native.opened, ours.opened:
            for call in calls:
                assert ours.do(call) == native.do(call), call
                assert ours.rows() == native.rows(), call
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("jitter", [0.5, 1.0])
def test_a_jitter_shortens_the_wait_by_up_to_its_share(tmp_path, jitter):
    native, ours = Side(tmp_path, "native"), Side(tmp_path, "ours")
    with native.opened, ours.opened:
        for side in (native, ours):
            waits = set()
            for number in range(40):
                side.queue.ingest(Job(job_id=f"{number}", max_attempts=9))
                (claim,) = side.queue.claim()
                report = Failed("why", backoff=Backoff(100, 100, jitter))
                waits.add((side.queue.settle(claim, report).available_at - side.clock.now()).total_seconds())
            assert len(waits) > 30
            assert all(100 * (1 - jitter) <= wait <= 100 for wait in waits)
    with contextlib.suppress(FileNotFoundError):
        native.path.unlink()
