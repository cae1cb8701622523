"""The order number of a purged job is never given to another one (C36). SQLite only: purging is done by hand here."""

import pytest
from steps import LEASE, claim_one, everything

from bandog import Cancelled, Completed, Failed, Release, Snooze, StaleClaim

TABLES = ("bandog_job", "bandog_ready", "bandog_lease", "bandog_outcome")


def purge(store):
    for table in TABLES:
        store.execute(f"DELETE FROM {table}")  # noqa: S608 - names from above


def numbers(store):
    return [number for (number,) in store.execute("SELECT number FROM bandog_job ORDER BY number")]


@pytest.mark.parametrize("reopen", [False, True], ids=["open", "reopened"])
@pytest.mark.parametrize(
    "report", [Completed("late"), Failed("late"), Cancelled(), Snooze(1), Release()], ids=lambda report: report.kind
)
def test_a_late_report_with_the_claim_of_a_purged_job_meets_no_stranger(sqlite_store, report, reopen):
    queue = sqlite_store.connect()
    queue.enqueue("old", job_id="old")
    claim = claim_one(queue, "old")
    before = numbers(sqlite_store)
    purge(sqlite_store)
    if reopen:
        queue = sqlite_store.reopen()
    queue.enqueue("new", job_id="new", max_attempts=3)
    running = claim_one(queue, "new")
    assert min(numbers(sqlite_store)) > max(before)
    record = everything(queue.read("new"))
    (settlement,) = queue.settle_many([(claim, report)])
    assert settlement.kind in {"stale", "not_found"}
    with pytest.raises(StaleClaim):
        queue.renew(claim)
    assert everything(queue.read("new")) == record
    assert queue.acknowledge(running).kind == "completed"


def test_numbers_only_grow_over_purges_conflicts_and_reopening(sqlite_store):
    queue = sqlite_store.connect()
    highest = 0
    for life in range(4):
        for number in range(5):
            queue.enqueue(job_id=f"{number}")
            queue.enqueue(job_id=f"{number}")
        found = numbers(sqlite_store)
        assert len(found) == 5
        assert found[0] > highest
        highest = found[-1]
        if life % 2:
            queue.acknowledge(claim_one(queue, "0", lease=LEASE))
        purge(sqlite_store)
        queue = sqlite_store.reopen() if life % 2 else queue


def test_an_id_may_be_used_again_after_its_job_was_purged(sqlite_store):
    queue = sqlite_store.connect()
    queue.enqueue(1, job_id="a")
    old = claim_one(queue, "a")
    purge(sqlite_store)
    assert queue.enqueue(2, job_id="a").kind == "admitted"
    with pytest.raises(StaleClaim):
        queue.acknowledge(("a", old.lease_token))
    assert claim_one(queue, "a").payload == 2
