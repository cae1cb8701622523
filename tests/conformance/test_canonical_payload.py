"""Payloads: what comes back, and which two are the same. The bytes of the canonical form are held by tests/unit."""

import collections
import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from steps import claim_one

from bandog import Job, JobConflict, PayloadError

# C33: whole numbers beyond the doubles.
INTEGERS = [
    0,
    -1,
    2**31,
    2**53 - 1,
    2**53,
    2**53 + 1,
    -(2**53 + 1),
    2**63 - 1,
    -(2**63),
    2**63,
    -(2**63) - 1,
    2**64,
    10**30,
    -(10**30),
    10**639,
]


def round_trip(store, payload):
    """The payload as the claim and, after reopening, the record show it."""
    store.connect().ingest(Job(job_id="trip", payload=payload))
    queue = store.reopen()
    claimed = claim_one(queue, "trip")
    assert claimed.payload_json == queue.read("trip").payload_json
    assert queue.read("trip").payload == claimed.payload
    return claimed.payload


@pytest.mark.parametrize(
    "number", INTEGERS, ids=lambda number: f"{number:.4e}" if abs(number) < 10**300 else "639 digits"
)
def test_whole_numbers_keep_their_exact_value(store, number):
    back = round_trip(store, {"top": number, "nested": [[number], {"n": number}]})
    assert back == {"top": number, "nested": [[number], {"n": number}]}
    assert type(back["top"]) is int
    queue = store.connect()
    queue.ingest(Job(job_id="result"))
    queue.acknowledge(claim_one(queue, "result"), number)
    result = queue.read("result").outcome.result
    assert (type(result), result) == (int, number)


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 10**30], ids=str)
def test_neighbouring_whole_numbers_are_different_content(queue, number):
    queue.ingest(Job(job_id="n", payload=number))
    for other in (number - 1, number + 1, float(number)):
        with pytest.raises(JobConflict):
            queue.ingest(Job(job_id="n", payload=other))
    assert queue.ingest(Job(job_id="n", payload=number)).kind == "duplicate"


def test_a_whole_number_that_no_store_keeps_is_refused(queue):
    with pytest.raises(PayloadError) as caught:
        queue.ingest(Job(job_id="huge", payload={"n": 10**640}))
    assert caught.value.path == "$.n"
    assert not queue.has_pending_work()


# C34: one written rule of equality, worked out from the caller's value before it is stored.
SAME = [
    ({"a": 1, "b": [1, {"x": 1, "y": 2}]}, {"b": [1, {"y": 2, "x": 1}], "a": 1}),
    ([1, 2], (1, 2)),
    ({"a": 1, "b": 2}, collections.OrderedDict([("b", 2), ("a", 1)])),
    (100.0, 1e2),
    (0.1, 0.1000000000000000055),
    (0, -0),
    ("\u00e9", "é"),
    (json.loads('{"a" : [ 1,2 ] }'), json.loads('{"a":[1,2]}')),
    (None, None),
    (5e-324, float.fromhex("0x0.0000000000001p-1022")),
]

DIFFERENT = [
    (1, 1.0),
    (1, True),
    (0, False),
    (1.0, True),
    (0.0, -0.0),
    (0, 0.0),
    (0, -0.0),
    (100, 1e2),
    ("é", "e\u0301"),
    ("a", "A"),
    ("a", "a "),
    ("a", "a\0"),
    ("1", 1),
    ("null", None),
    (None, False),
    ([], {}),
    ([], None),
    ({}, {"a": None}),
    ({"a": 1}, {"a": 1, "b": None}),
    ([1, 2], [2, 1]),
    ([1], [[1]]),
    ([1], 1),
    ({"a": {"b": 1}}, {"a": {"b": 1.0}}),
    (0.1, math.nextafter(0.1, 1)),
    (10**22, 1e22),
]


@pytest.mark.parametrize(("stored", "again"), SAME, ids=repr)
def test_the_same_payload_is_a_duplicate(store, queue, stored, again):
    queue.ingest(Job(job_id="r1", payload=stored))
    assert queue.ingest(Job(job_id="r1", payload=again)).kind == "duplicate"
    assert store.reopen().ingest(Job(job_id="r1", payload=again)).kind == "duplicate"


@pytest.mark.parametrize(("stored", "again"), DIFFERENT, ids=ascii)
def test_a_different_payload_is_a_conflict(queue, stored, again):
    for first, second in ((stored, again), (again, stored)):
        job_id = repr(first)
        queue.ingest(Job(job_id=ascii(job_id), payload=first))
        before = queue.read(ascii(job_id)).payload_json
        with pytest.raises(JobConflict) as caught:
            queue.ingest(Job(job_id=ascii(job_id), payload=second))
        assert caught.value.difference == "payload"
        assert queue.read(ascii(job_id)).payload_json == before


@pytest.mark.parametrize("payload", [pair[0] for pair in SAME] + [pair[0] for pair in DIFFERENT], ids=ascii)
def test_a_value_that_was_read_back_is_the_same_payload(queue, payload):
    record = queue.ingest(Job(job_id="r1", payload=payload)).job
    assert queue.ingest(Job(job_id="r1", payload=record.payload)).kind == "duplicate"
    assert queue.ingest(Job(job_id="r1", payload=json.loads(record.payload_json))).kind == "duplicate"
    assert queue.ingest(Job(job_id="r1", payload=claim_one(queue).payload)).kind == "duplicate"


def test_a_payload_over_the_limit_is_refused_before_it_is_compared(queue):
    queue.ingest(Job(job_id="r1", payload="small"))
    with pytest.raises(PayloadError):
        queue.ingest(Job(job_id="r1", payload="x" * 5_000_000))
    assert queue.read("r1").payload == "small"


# C31: what one store would refuse and another keep.
REFUSED = [
    (math.nan, "$"),
    (math.inf, "$"),
    (-math.inf, "$"),
    ("lone \ud800", "$"),
    ({"a": [0, math.nan]}, "$.a[1]"),
    ({"a": {"b c": -math.inf}}, '$.a["b c"]'),
    ([[["\udfff"]]], "$[0][0][0]"),
    ({1: 2}, "$"),
    ({None: 2}, "$"),
    ({1, 2}, "$"),
    (b"bytes", "$"),
    ([1, {"x": object()}], "$[1].x"),
    (1j, "$"),
]


@pytest.mark.parametrize(("payload", "path"), REFUSED, ids=ascii)
def test_what_is_no_json_is_refused_with_its_place(queue, payload, path):
    with pytest.raises(PayloadError) as caught:
        queue.ingest(Job(job_id="bad", payload=payload))
    assert (caught.value.field, caught.value.path, caught.value.job_id) == ("payload", path, "bad")
    assert not queue.has_pending_work()


class Pretender:
    """Offers every hook by which some serialiser turns objects into data, or data into calls."""

    called = False

    def hook(self, *_arguments):
        type(self).called = True
        return "data"

    __reduce__ = __reduce_ex__ = __getstate__ = __json__ = to_json = default = _asdict = hook


def test_an_object_is_refused_and_none_of_its_hooks_is_called(queue):
    for payload in (Pretender(), {"a": [Pretender()]}):
        with pytest.raises(PayloadError):
            queue.ingest(Job(job_id="bad", payload=payload))
    assert Pretender.called is False
    assert not queue.has_pending_work()


def test_what_looks_like_code_stays_data(store):
    payload = {
        "__class__": "os.system",
        "py/reduce": [{"py/function": "os.system"}, ["false"]],
        "yaml": "!!python/object/apply:os.system ['false']",
        "pickle": "cos\nsystem\n(S'false'\ntR.",
        "$ref": "file:///etc/passwd",
        "__proto__": {"a": 1},
        "template": "{{7*7}} {0.__class__} %s ${HOME}",
    }
    assert round_trip(store, payload) == payload


@pytest.mark.parametrize(
    "text", ["a\0b", "\0", "\x01\x1f\x7f", "\u2028\u2029", "\uffff", "\U0010ffff", "\\u0000", '"', ""]
)
def test_every_other_character_comes_back(store, text):
    assert round_trip(store, {text: [text, {"k": text}]}) == {text: [text, {"k": text}]}


TEXTS = st.text(max_size=20)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
PAYLOADS = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def exact(value):
    """A form in which 1, 1.0 and True differ, and -0.0 from 0.0."""
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exact(item) for item in value]
    return type(value).__name__, repr(value)


@given(payload=PAYLOADS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_payload_comes_back_and_is_its_own_duplicate(queue, payload):
    admission = queue.ingest(Job(payload=payload))
    claim = claim_one(queue, admission.job_id)
    assert exact(claim.payload) == exact(payload)
    assert queue.ingest(Job(job_id=claim.job_id, payload=claim.payload)).kind == "duplicate"
    queue.acknowledge(claim, payload)
    assert exact(queue.read(claim.job_id).outcome.result) == exact(payload)
