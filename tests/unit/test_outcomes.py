"""The words as values: jobs, outcomes, settlements, ticks."""

import copy
import dataclasses

import pytest
from steps import pickled

import bandog
from bandog import (
    Backoff,
    Cancelled,
    Completed,
    Failed,
    Interrupted,
    Job,
    OutcomeUnknown,
    Release,
    Settlement,
    Snooze,
    Tick,
)

KINDS = {
    Completed: "completed",
    Failed: "failed",
    Cancelled: "cancelled",
    OutcomeUnknown: "outcome_unknown",
    Interrupted: "interrupted",
    Snooze: "snooze",
    Release: "release",
}

VALUES = [
    *[cls() for cls in KINDS],
    Completed({"a": [1]}),
    Failed("why", retry=False, retry_in=5, backoff=Backoff()),
    Snooze(5),
    Backoff(2, 3, 0.5),
    Job(payload=[1], job_id="a"),
    Settlement("retried"),
    Tick(kind="idle"),
]
by_value = pytest.mark.parametrize("value", VALUES, ids=repr)


@pytest.mark.parametrize(("cls", "kind"), KINDS.items(), ids=KINDS.values())
def test_every_outcome_has_its_kind(cls, kind):
    assert cls.kind == cls().kind == kind
    assert "kind" not in {field.name for field in dataclasses.fields(cls)}


@by_value
def test_a_value_cannot_be_changed(value):
    for name in [field.name for field in dataclasses.fields(value)] or ["kind"]:
        with pytest.raises((AttributeError, TypeError)):
            setattr(value, name, 1)
    with pytest.raises((AttributeError, TypeError)):
        value.other = 1


@by_value
def test_a_value_equals_its_copies_and_no_other_class(value):
    assert value == copy.deepcopy(value) == pickled(value) == dataclasses.replace(value)
    assert sum(value == other for other in VALUES) == 1


def test_the_arguments_stand_in_the_documented_order():
    assert Completed(1).result == 1
    assert Failed("why", False, 2.0, Backoff()) == Failed("why", retry=False, retry_in=2.0, backoff=Backoff())
    assert Cancelled("why").reason == "why"
    assert OutcomeUnknown(1).evidence == 1
    assert Snooze(3).delay == 3


def test_the_documented_defaults():
    assert Completed() == Completed(None)
    assert Failed() == Failed("", True, None, None)
    assert Backoff() == Backoff(1.0, 60.0, 0.0)
    assert Job() == Job(payload=None, job_id=None, queue="default", lane="default", priority=0)
    assert Tick(kind="idle") == Tick(kind="idle", job_id=None, outcome=None, recovered=(), interrupted=())


def test_a_job_takes_its_fields_by_name_only():
    with pytest.raises(TypeError):
        Job({"a": 1})


def test_an_outcome_is_matched_by_its_parts():
    match bandog.Failed("why"):
        case Completed():
            pytest.fail("it is not completed")
        case Failed(reason):
            assert reason == "why"
