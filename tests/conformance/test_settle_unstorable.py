"""Settle: a result, evidence or reason that no store can keep never costs the job its outcome (C31)."""

import math
import sys

import pytest
from steps import LEASE, claim_one, everything

from bandog import Completed, Failed


class Broken(list):
    """Looks like JSON until it is read."""

    def __iter__(self):
        raise RuntimeError("broken")


class Exits(list):
    """The same, with an exception that is no ``Exception``."""

    def __iter__(self):
        sys.exit(3)


class NoText:
    """Has no text at all."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


def cycle():
    value = []
    value.append(value)
    return value


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


UNSTORABLE = [
    math.nan,
    math.inf,
    -math.inf,
    {"a": {"b": [1, math.nan]}},
    "lone \ud800",
    {"\udfff": 1},
    {1, 2},
    {"items": [{"x": {1}}]},
    {1: "key"},
    b"bytes",
    object(),
    1j,
    10**640,
    Broken([1]),
    NoText(),
    cycle(),
    nested(5000),
    "x" * (1 << 20),
]
by_value = pytest.mark.parametrize("value", UNSTORABLE, ids=lambda value: f"{type(value).__name__}")


@pytest.fixture
def claim(queue):
    queue.enqueue(job_id="a", max_attempts=9, max_recoveries=9)
    return claim_one(queue, "a")


def stays(store, queue):
    """The outcome stands, and the job never runs again."""
    before = everything(queue.read("a"))
    assert before["state"] == "settled"
    store.advance(10 * LEASE)
    reopened = store.reopen()
    assert reopened.recover() == ((), ())
    assert reopened.claim() == []
    assert everything(reopened.read("a")) == before


@by_value
def test_a_completion_with_an_unstorable_result_is_a_final_failure_that_says_so(store, queue, claim, value):
    assert queue.acknowledge(claim, value).kind == "failed"
    outcome = queue.read("a").outcome
    assert isinstance(outcome, Failed)
    assert "result not storable" in outcome.reason
    assert "$" in outcome.reason
    # Repeating it changes nothing, even with a result that could be stored.
    assert queue.acknowledge(claim, "fine").kind == "failed"
    stays(store, queue)


@by_value
def test_unstorable_evidence_is_noted_and_the_outcome_stays_unknown(store, queue, claim, value):
    assert queue.outcome_unknown(claim, value).kind == "outcome_unknown"
    outcome = queue.read("a").outcome
    assert outcome.kind == "outcome_unknown"
    assert "evidence not storable" in outcome.evidence
    stays(store, queue)


REASONS = [
    "lone \ud800 surrogate",
    "\udfff",
    "a\0b",
    "",
    None,
    5,
    math.nan,
    b"bytes",
    ["a", {"b": "\ud800"}],
    ValueError("why"),
    NoText(),
    "x" * 3_000_000,
    "\ud83d\ude00",
]
by_reason = pytest.mark.parametrize(
    "reason", REASONS, ids=lambda reason: "no text" if isinstance(reason, NoText) else ascii(reason)[:20]
)


@by_reason
def test_every_reason_of_a_failure_is_recorded_somehow(store, queue, claim, reason):
    assert queue.fail(claim, reason, retry=False).kind == "failed"
    recorded = queue.read("a").outcome.reason
    recorded.encode()
    assert "\0" not in recorded
    assert bool(recorded) == (reason not in ("", None))
    stays(store, queue)


@by_reason
def test_every_reason_of_a_cancellation_is_recorded_somehow(store, queue, claim, reason):
    assert queue.cancelled(claim, reason).kind == "cancelled"
    recorded = queue.read("a").outcome.reason
    assert (recorded is None) == (reason is None)
    (recorded or "").encode()
    stays(store, queue)


def test_the_rest_of_a_reason_is_kept(queue, claim):
    queue.fail(claim, "before \ud800 between \0 after", retry=False)
    reason = queue.read("a").outcome.reason
    assert reason.startswith("before ")
    assert " between " in reason
    assert reason.endswith(" after")


def test_an_unstorable_reason_of_a_retry_still_retries(store, queue, claim):
    assert queue.fail(claim, "\ud800", retry_in=0).kind == "retried"
    store.advance(1)
    again = claim_one(queue, "a")
    assert again.last_error
    assert queue.acknowledge(again).kind == "completed"


def test_an_unstorable_result_spoils_no_other_settlement_of_the_call(queue, claim):
    queue.enqueue(job_id="b")
    other = claim_one(queue, "b")
    kinds = [answer.kind for answer in queue.settle_many([(claim, Completed(math.nan)), (other, Completed("fine"))])]
    assert kinds == ["failed", "completed"]
    assert queue.read("b").outcome == Completed("fine")


def test_a_stop_of_the_program_while_a_result_is_read_is_not_swallowed(queue, claim):
    with pytest.raises(SystemExit):
        queue.acknowledge(claim, Exits([1]))
    # Nothing was recorded: the claim holds on.
    assert queue.read("a").state == "running"
    assert queue.acknowledge(claim).kind == "completed"


def test_a_result_may_be_exactly_as_large_as_the_limit(store):
    queue = store.connect(payload_limit=50)
    queue.enqueue(job_id="a")
    assert queue.acknowledge(claim_one(queue, "a"), "x" * 48).kind == "completed"
    assert queue.read("a").outcome == Completed("x" * 48)
    queue.enqueue(job_id="b")
    assert queue.acknowledge(claim_one(queue, "b"), "x" * 49).kind == "failed"
