"""Sequences of operations on one job with what each answers and leaves behind: shared with every other engine.

``tests/vectors/lifecycle.json`` explains its own form.
"""

import itertools
import json
from datetime import timedelta
from pathlib import Path

import pytest

from bandog import (
    Cancelled,
    Completed,
    Failed,
    Job,
    JobNotFound,
    OutcomeUnknown,
    Release,
    RequeueRefused,
    Snooze,
)

VECTORS = json.loads(Path(__file__).parents[1].joinpath("vectors", "lifecycle.json").read_text(encoding="utf-8"))
SEQUENCES = VECTORS["sequences"]
LEASE = 60
REPORTS = {
    "completed": Completed,
    "failed": Failed,
    "cancelled": Cancelled,
    "outcome_unknown": OutcomeUnknown,
    "snooze": Snooze,
    "release": Release,
}


class Sequence:
    """One job, and the operations on it."""

    def __init__(self, store, queue, sequence):
        self.store, self.queue = store, queue
        budgets = {name: sequence[name] for name in ("max_attempts", "max_recoveries")}
        self.job = Job(job_id="job", queue="vectors", lane="lane", payload={"n": 1}, **budgets)
        self.claims = []

    def ingest(self):
        return self.queue.ingest(self.job).kind

    def advance(self, seconds):
        self.store.advance(seconds)

    def claim(self):
        claims = self.queue.claim(lease=LEASE)
        if not claims:
            return None
        self.claims += claims
        (claim,) = claims
        return {name: getattr(claim, name) for name in ("attempt", "charged", "recoveries", "last_error")}

    def settle(self, report, claim=-1):
        fields = dict(report)
        made = REPORTS[fields.pop("kind")](**fields)
        (settlement,) = self.queue.settle_many([(self.claims[claim], made)])
        return settlement.kind

    def recover(self):
        recovered, interrupted = self.queue.recover()
        return {(("job",), ()): "recovered", ((), ("job",)): "interrupted"}[recovered, interrupted]

    def cancel(self, reason):
        answer = self.queue.cancel("job", reason)
        return {"kind": answer.kind, "outcome": answer.outcome}

    def requeue(self, force):
        try:
            self.queue.requeue("job", force=force)
        except RequeueRefused as refusal:
            return "refused" if refusal.outcome else "not_settled"
        return "requeued"

    def fail_lane(self, reason):
        answer = self.queue.fail_lane("vectors", "lane", reason)
        return {"failed": answer.failed, "left": answer.left}

    def purge(self):
        self.store.advance(0.001)
        return self.queue.purge(older_than=0)

    def agrees(self, expected):
        """Whether the job's record is as expected."""
        try:
            record = self.queue.read("job")
        except JobNotFound:
            assert expected is None
            return
        assert expected is not None
        expected = dict(expected)
        outcome = record.outcome
        assert expected.pop("outcome") == (outcome and outcome.kind)
        if "due_in" in expected:
            # What is due is due, however long since.
            due = self.store.now() + timedelta(seconds=expected["due_in"])
            late = record.available_at <= self.store.now()
            assert self.store.is_about(record.available_at, due) or (expected["due_in"] == 0 and late)
            del expected["due_in"]
        if "error_contains" in expected:
            assert expected.pop("error_contains") in record.error
        for name, payload in (("result", "result"), ("evidence", "evidence")):
            if name in expected:
                assert getattr(outcome, payload) == expected.pop(name)
        assert {name: getattr(record, name) for name in expected} == expected


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: sequence["name"].replace(" ", "-"))
def test_every_step_answers_and_leaves_the_job_as_the_vectors_say(store, queue, sequence):
    run = Sequence(store, queue, sequence)
    for number, step in enumerate(sequence["steps"]):
        arguments = {name: value for name, value in step.items() if name not in {"do", "answer", "record"}}
        answer = getattr(run, step["do"])(**arguments)
        expected = step["answer"]
        if isinstance(expected, dict):
            # A text that engines word as they like is not among them.
            answer = {name: answer[name] for name in expected} if answer else answer
        assert answer == expected, (number, step)
        run.agrees(step["record"])


def test_the_vectors_cover_budgets_reports_requests_and_losses():
    assert len(SEQUENCES) >= 60
    names = [sequence["name"] for sequence in SEQUENCES]
    assert len(set(names)) == len(names)
    budgets = {(sequence["max_attempts"], sequence["max_recoveries"]) for sequence in SEQUENCES}
    steps = [step for sequence in SEQUENCES for step in sequence["steps"]]
    assert {step["do"] for step in steps} == {
        name for name, value in vars(Sequence).items() if callable(value) and name not in {"__init__", "agrees"}
    }
    assert {step["report"]["kind"] for step in steps if step["do"] == "settle"} == set(REPORTS)
    answers = {step["answer"] for step in steps if isinstance(step["answer"], str)}
    assert answers == {
        *("admitted", "duplicate", "completed", "failed", "cancelled", "outcome_unknown", "retried", "snoozed"),
        *("released", "stale", "recovered", "interrupted", "requeued", "refused", "not_settled"),
    }
    # Each combination of budgets meets each way in which a claim ends, without and with a request to cancel it.
    met = set()
    for sequence in SEQUENCES:
        asked = False
        for step in sequence["steps"]:
            asked = (asked or step["do"] == "cancel") and step["do"] not in {"requeue", "claim"}
            if step["do"] in {"settle", "recover"} and step["answer"] != "stale":
                end = step["report"]["kind"] if step["do"] == "settle" else "lost"
                met.add((sequence["max_attempts"], sequence["max_recoveries"], end, asked))
    ends = {"completed", "failed", "snooze", "release", "lost"}
    assert len(budgets) >= 8
    wanted = {(*pair, end, asked) for pair, end, asked in itertools.product(budgets, ends, (False, True))}
    assert {each for each in wanted if each[:2] not in {(10, None), (9, None)}} <= met
