"""JSON against Python's own idea of it: what goes in comes out, and equal means the same value of the same type."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bandog
from bandog import Completed, Job

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.integers(-(10**25), 10**25) | st.floats(allow_nan=False, allow_infinity=False)
# Few distinct ones, so that two draws are often nearly the same.
leaves = st.sampled_from([None, True, False, 0, 1, 0.0, 1.0, -0.0, "", "1", "é", 2**63, 1e300]) | texts | numbers
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
unstorable = st.sampled_from([math.nan, math.inf, -math.inf, "\ud800", b"", {1: 2}, {1, 2}, 1j])
ids = itertools.count()


@pytest.fixture(scope="module")
def queue(tmp_path_factory):
    with bandog.connect(tmp_path_factory.mktemp("json") / "jobs.sqlite", synchronous="normal") as queue:
        yield queue


def told_apart(value):
    """The value with its types, so that ``==`` tells 1, 1.0 and True apart, and 0.0 from -0.0."""
    if isinstance(value, dict):
        return {key: told_apart(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [told_apart(inner) for inner in value]
    return type(value).__name__, repr(value)


def turned_round(value):
    """The same value, its keys in another order."""
    if isinstance(value, dict):
        return {key: turned_round(inner) for key, inner in reversed(value.items())}
    if isinstance(value, list):
        return [turned_round(inner) for inner in value]
    return value


@given(value=values)
def test_what_goes_in_comes_out_and_its_replay_is_a_duplicate(queue, value):
    job_id = f"{next(ids)}"
    queue.enqueue(value, job_id=job_id)
    assert told_apart(queue.read(job_id).payload) == told_apart(value)
    assert queue.ingest(Job(job_id=job_id, payload=turned_round(value))).kind == "duplicate"
    (claim,) = queue.claim()
    assert told_apart(claim.payload) == told_apart(value)
    assert queue.acknowledge(claim, value).kind == "completed"
    outcome = queue.read(job_id).outcome
    assert isinstance(outcome, Completed)
    assert told_apart(outcome.result) == told_apart(value)


@given(first=values, second=values)
def test_a_replay_is_a_duplicate_exactly_where_the_value_is_the_same(queue, first, second):
    job_id = f"{next(ids)}"
    _, admission = queue.ingest_many(
        [
            Job(job_id=job_id, payload=first, queue="unclaimed"),
            Job(job_id=job_id, payload=second, queue="unclaimed"),
        ]
    )
    assert admission.kind == ("duplicate" if told_apart(first) == told_apart(second) else "conflict")
    queue.cancel(job_id)


@given(value=values, bad=unstorable, place=st.sampled_from(["alone", "in a list", "under a key"]))
def test_one_unstorable_value_anywhere_refuses_the_whole_payload(queue, value, bad, place):
    job_id = f"{next(ids)}"
    payload, path = {
        "alone": (bad, "$"),
        "in a list": ([value, bad], "$[1]"),
        "under a key": ({"a": value, "b": [bad]}, "$.b[0]"),
    }[place]
    with pytest.raises(bandog.PayloadError) as refused:
        queue.enqueue(payload, job_id=job_id)
    assert refused.value.path.startswith(path)
    with pytest.raises(bandog.JobNotFound):
        queue.read(job_id)
