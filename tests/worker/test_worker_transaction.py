"""A job that its executor settles in its own transaction (``connection=``): that decides, whatever runs it."""

import settling_executors

from bandog import Completed


def run(bench, name):
    bench.queue.enqueue({"file": str(bench.path)}, job_id="a")
    bench.burst(getattr(settling_executors, f"{name}_async" if bench.is_async else name))
    return bench.queue.read("a")


def test_what_was_committed_is_the_outcome(bench):
    assert run(bench, "settle_and_commit").outcome == Completed("in the transaction")


def test_what_was_rolled_back_is_a_failure(bench):
    record = run(bench, "settle_and_roll_back")
    assert record.outcome.kind == "failed"
    assert "not committed" in record.error
