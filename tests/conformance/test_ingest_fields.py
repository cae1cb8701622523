"""Ingest: what no store may accept is refused before anything is written, and the error names the field."""

import math
from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from steps import claim_one, everything

from bandog import Backoff, InvalidJob, Job, JobNotFound, PayloadError


class NoOffset(tzinfo):
    """A time zone that cannot say where it is."""

    def utcoffset(self, when):  # noqa: ARG002 - the signature is given
        return None


NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 - that is the point
AWARE = datetime(2030, 1, 1, tzinfo=UTC)
CENTURY = 100 * 366 * 86_400

INVALID = [
    ("job_id", {"job_id": ""}),
    ("job_id", {"job_id": 7}),
    ("job_id", {"job_id": b"a"}),
    ("job_id", {"job_id": "x" * 256}),
    ("job_id", {"job_id": "a\nb"}),
    ("job_id", {"job_id": "a\0b"}),
    ("job_id", {"job_id": "\ud800"}),
    ("queue", {"queue": ""}),
    ("queue", {"queue": None}),
    ("queue", {"queue": "tab\t"}),
    ("queue", {"queue": "x" * 256}),
    ("queue", {"queue": ["mail"]}),
    ("lane", {"lane": ""}),
    ("lane", {"lane": None}),
    ("lane", {"lane": "\x7f"}),
    ("lane", {"lane": 1}),
    ("priority", {"priority": 2**31}),
    ("priority", {"priority": -(2**31) - 1}),
    ("priority", {"priority": 1.0}),
    ("priority", {"priority": True}),
    ("priority", {"priority": "1"}),
    ("priority", {"priority": None}),
    ("max_attempts", {"max_attempts": 0}),
    ("max_attempts", {"max_attempts": -1}),
    ("max_attempts", {"max_attempts": 2**31}),
    ("max_attempts", {"max_attempts": 1.0}),
    ("max_attempts", {"max_attempts": True}),
    ("max_recoveries", {"max_recoveries": -1}),
    ("max_recoveries", {"max_recoveries": 2**31}),
    ("max_recoveries", {"max_recoveries": False}),
    ("max_recoveries", {"max_recoveries": "2"}),
    ("available_at", {"available_at": NAIVE}),
    ("available_at", {"available_at": AWARE.date()}),
    ("available_at", {"available_at": AWARE.timestamp()}),
    ("available_at", {"available_at": "2030-01-01T00:00:00Z"}),
    ("available_at", {"available_at": datetime(2030, 1, 1, tzinfo=NoOffset())}),
    ("available_at", {"available_at": datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)}),
    ("delay", {"delay": -0.001}),
    ("delay", {"delay": math.nan}),
    ("delay", {"delay": math.inf}),
    ("delay", {"delay": CENTURY + 1}),
    ("delay", {"delay": 10**400}),
    ("delay", {"delay": True}),
    ("delay", {"delay": "60"}),
    ("delay", {"delay": timedelta(seconds=-1)}),
    ("delay", {"delay": timedelta.max}),
    ("delay", {"delay": 1, "available_at": AWARE}),
    ("timeout", {"timeout": 0}),
    ("timeout", {"timeout": -1}),
    ("timeout", {"timeout": math.nan}),
    ("timeout", {"timeout": True}),
    ("timeout", {"timeout": "1"}),
    ("backoff", {"backoff": 5}),
    ("backoff", {"backoff": Backoff(base=-1)}),
    ("backoff", {"backoff": Backoff(base=math.nan)}),
    ("backoff", {"backoff": Backoff(base="1")}),
    ("backoff", {"backoff": Backoff(base=10, cap=9)}),
    ("backoff", {"backoff": Backoff(cap=math.inf)}),
    ("backoff", {"backoff": Backoff(cap=None)}),
    ("backoff", {"backoff": Backoff(jitter=-0.1)}),
    ("backoff", {"backoff": Backoff(jitter=1.1)}),
    ("backoff", {"backoff": Backoff(jitter=math.nan)}),
    ("backoff", {"backoff": Backoff(jitter=True)}),
    ("backoff", {"backoff": Backoff(jitter="0")}),
    ("payload", {"payload": math.nan}),
    ("payload", {"payload": {"a": [{1, 2}]}}),
]


def label(part):
    if isinstance(part, str):
        return part
    return (
        "+".join(f"{name}={value!r:.40}" for name, value in part.items()).encode("ascii", "backslashreplace").decode()
    )


@pytest.mark.parametrize(("field", "fields"), INVALID, ids=label)
def test_an_invalid_field_is_named_and_nothing_is_written(queue, field, fields):
    with pytest.raises(InvalidJob) as caught:
        queue.ingest(Job(**{"job_id": "refused", **fields}))
    assert caught.value.field.split()[0] == field
    assert field in str(caught.value)
    assert isinstance(caught.value, ValueError)
    if field != "job_id":
        assert caught.value.job_id == "refused"
        assert "refused" in str(caught.value)
    with pytest.raises(JobNotFound):
        queue.read("refused")
    assert not queue.has_pending_work()


@pytest.mark.parametrize("job", [None, 1, "job", {"job_id": "a"}, object()], ids=lambda job: type(job).__name__)
def test_what_is_no_job_is_refused(queue, job):
    with pytest.raises(InvalidJob):
        queue.ingest(job)
    assert not queue.has_pending_work()


def test_a_payload_error_says_where_the_value_stands(queue):
    with pytest.raises(PayloadError) as caught:
        queue.ingest(Job(job_id="bad", payload={"items": [1, {"price": math.inf}]}))
    assert (caught.value.field, caught.value.path, caught.value.job_id) == ("payload", "$.items[1].price", "bad")
    assert "$.items[1].price" in str(caught.value)


VALID = [
    {"priority": 2**31 - 1},
    {"priority": -(2**31)},
    {"max_attempts": 1},
    {"max_attempts": 2**31 - 1},
    {"max_recoveries": 0},
    {"max_recoveries": 2**31 - 1},
    {"queue": "x" * 255, "lane": "é" * 255},
    {"job_id": "🐕" * 255},
]


@pytest.mark.parametrize("fields", VALID, ids=label)
def test_the_edges_of_every_range_work(store, queue, fields):
    admission = queue.ingest(Job(**{"job_id": "edge", **fields}))
    claim = claim_one(queue, admission.job_id)
    for name, value in fields.items():
        assert getattr(claim, name) == value
        assert getattr(admission.job, name) == value
    queue.acknowledge(claim)
    assert everything(store.reopen().read(admission.job_id))["outcome"].kind == "completed"


def test_a_payload_may_be_exactly_as_large_as_the_limit(store):
    queue = store.connect(payload_limit=100)
    queue.ingest(Job(job_id="fits", payload="x" * 98))
    with pytest.raises(PayloadError) as caught:
        queue.ingest(Job(job_id="too large", payload="x" * 99))
    assert caught.value.field == "payload"
    assert claim_one(queue, "fits").payload == "x" * 98


def test_the_limit_is_one_mebibyte_by_default(queue):
    queue.ingest(Job(job_id="fits", payload="x" * ((1 << 20) - 2)))
    with pytest.raises(PayloadError):
        queue.ingest(Job(job_id="too large", payload="x" * ((1 << 20) - 1)))
    with pytest.raises(PayloadError):
        queue.ingest(Job(job_id="far too large", payload="x" * 5_000_000))
    assert len(claim_one(queue, "fits").payload) == (1 << 20) - 2


# C36: ids that users choose. Each works everywhere, or is refused when it is ingested.
WORKING_IDS = [
    "a:b",
    "a/b",
    "../x",
    "%2F",
    " ",
    "a b",
    "0",
    "-1",
    "'",
    '"',
    "'; DROP TABLE bandog_job; --",
    "back\\slash",
    "%",
    "_",
    "?1",
    "🐕‍🦺",
    "é",
    "e\u0301",
    "trailing ",
    " leading",
    "null",
    "\u202e",
    "\ufeff",
    "\uffff",
    "x" * 255,
]


@pytest.mark.parametrize("job_id", WORKING_IDS, ids=ascii)
@pytest.mark.parametrize("as_pair", [False, True], ids=["claim", "pair"])
def test_an_id_works_through_ingest_claim_read_renew_and_settle(store, queue, job_id, as_pair):
    assert queue.ingest(Job(job_id=job_id, queue=job_id, lane=job_id, max_attempts=2)).job_id == job_id
    assert queue.ingest(Job(job_id=job_id, queue=job_id, lane=job_id, max_attempts=2)).kind == "duplicate"
    claim = claim_one(queue, job_id, queues=[job_id], worker=job_id)
    assert (claim.queue, claim.lane) == (job_id, job_id)
    named = (job_id, claim.lease_token) if as_pair else claim
    assert queue.renew(named) is None
    assert queue.fail(named, "again", retry_in=0).kind == "retried"
    claim = claim_one(queue, job_id, queues=job_id, worker=job_id)
    named = (job_id, claim.lease_token) if as_pair else claim
    assert queue.acknowledge(named).kind == "completed"
    record = store.reopen().read(job_id)
    assert (record.job_id, record.worker, record.outcome.kind) == (job_id, job_id, "completed")


@pytest.mark.parametrize(
    "job_id", ["", "a\nb", "\r", "nul\0", "x" * 256, "x" * 10_000, "\x85"], ids=lambda i: ascii(i)[:20]
)
def test_an_id_that_is_refused_is_refused_when_it_is_ingested(queue, job_id):
    with pytest.raises(InvalidJob) as caught:
        queue.ingest(Job(job_id=job_id))
    assert caught.value.field == "job_id"
    assert not queue.has_pending_work()


def test_ids_are_compared_as_they_are(queue):
    ids = ["case", "CASE", "Case", "case ", " case", "é", "e\u0301", "ｃase", "1", "01", "1.0"]
    for job_id in ids:
        assert queue.ingest(Job(job_id=job_id, payload=job_id)).kind == "admitted"
    assert [queue.read(job_id).payload for job_id in ids] == ids
    assert [claim.job_id for claim in queue.claim(limit=99)] == ids


def test_queues_are_compared_as_they_are(queue):
    names = ["mail", "Mail", "mail ", "é", "e\u0301"]
    for name in names:
        queue.ingest(Job(job_id=name, queue=name))
    for name in names:
        assert [claim.job_id for claim in queue.claim(queues=name, limit=99)] == [name]
