"""Rows that a caller's open transaction holds locked: they are skipped, waited for, and never taken for stale."""

import time
from contextlib import closing

import pytest
from steps import Background, wait_until

from bandog import Completed, Failed, Job, StoreBusy, Watchdog
from bandog.sql import statement


@pytest.fixture
def claims(queue):
    queue.ingest_many(Job(job_id=f"{number}", max_attempts=3) for number in range(6))
    return {claim.job_id: claim for claim in queue.claim(limit=6, lease=60)}


@pytest.mark.parametrize("report", [Completed(), Failed("why", retry_in=0)], ids=["plain", "by the rules"])
def test_a_locked_claim_holds_up_no_other_settlement(database, queue, claims, report):
    with database.holding("lease", "3"):
        settling = Background(lambda: queue.settle(claims["3"], report))
        for job_id in ("0", "1", "2"):
            assert queue.settle(claims[job_id], report).kind in {"completed", "retried"}
    assert settling.join().kind in {"completed", "retried"}


def test_a_batch_settles_all_but_the_locked_claim_and_waits_for_it(database, queue, claims):
    with database.holding("lease", "3"):
        settling = Background(lambda: queue.settle_many([(claims[job_id], Completed()) for job_id in "01234"]))
        wait_until(lambda: queue.read("4").state == "settled", "the others are settled")
        assert queue.read("3").state == "running"
    assert [settlement.kind for settlement in settling.join()] == ["completed"] * 5


def test_a_claim_that_stays_locked_is_busy_and_not_stale(database, claims):
    hasty = database.queue(busy_timeout=0.3)
    with database.holding("lease", "3"):
        started = time.monotonic()
        with pytest.raises(StoreBusy):
            hasty.acknowledge(claims["3"])
        with pytest.raises(StoreBusy):
            hasty.renew(claims["3"])
        assert time.monotonic() - started >= 0.6
        kinds = [settlement.kind for settlement in hasty.settle_many([(claims[n], Completed()) for n in "234"])]
        assert kinds == ["completed", "busy", "completed"]
    assert hasty.acknowledge(claims["3"]).kind == "completed"


def test_a_claim_that_was_settled_meanwhile_says_what_it_became(database, queue, claims):
    """The lock was that of a transaction that settled it under the same token."""
    claim = claims["3"]
    with closing(database.connection()) as other:
        other.execute("BEGIN")
        types = "int8[], text[], text[], text[], text[], text[]"
        other.execute(f"PREPARE settle({types}) AS {statement('postgres', 'settle')}".encode())
        (number,) = database.execute("SELECT number FROM bandog.job WHERE job_id = '3'")[0]
        done = "EXECUTE settle(ARRAY[{}], ARRAY['{}'], ARRAY['completed'], ARRAY['7'], '{{NULL}}', '{{NULL}}')"
        assert other.execute(done.format(number, claim.lease_token).encode()).fetchall() == [(number,)]
        settling = Background(lambda: queue.fail(claim, "too late"))
        assert queue.acknowledge(claims["0"]).kind == "completed"
        other.execute("COMMIT")
        assert settling.join().kind == "completed"
    assert queue.read("3").outcome == Completed(7)


def test_one_locked_claim_does_not_let_the_other_leases_lapse(database, queue):
    """Renewals of all claims are one statement, on a link of their own."""
    queue.ingest_many([Job(job_id="locked"), Job(job_id="other")])
    (locked,) = queue.claim(lease=60)
    assert locked.job_id == "locked"
    with database.holding("lease", "locked"):

        def execute(_job, token):
            ends = [queue.read("other").lease_until]
            while len(ends) < 4:
                assert not token.aborted
                if (end := queue.read("other").lease_until) > ends[-1]:
                    ends.append(end)
            return Completed(len(ends))

        # With a claim of the same keeper that is locked beside it.
        with Watchdog(queue, execute, lease=1) as dog:
            assert dog.tick().outcome == Completed(4)


def test_a_queued_job_that_is_locked_is_passed_over_and_found_again(database, queue):
    queue.ingest_many(Job(job_id=f"{number}") for number in range(3))
    with database.holding("ready", "0"):
        assert [claim.job_id for claim in queue.claim(limit=1)] == ["1"]
        assert [claim.job_id for claim in queue.claim(limit=9)] == ["2"]
    wait_until(lambda: [claim.job_id for claim in queue.claim(limit=9)] == ["0"], "the job is found")


def test_an_expired_claim_that_is_locked_is_left_to_its_holder(database, queue):
    queue.ingest_many([Job(job_id="held"), Job(job_id="lost")])
    held, _lost = queue.claim(limit=2, lease=0.5)
    with database.holding("lease", "held"):
        wait_until(lambda: queue.recover() == (("lost",), ()), "the lease of the other one expires")
        assert queue.read("held").state == "running"
    assert queue.recover() == (("held",), ())
    assert held.attempt == 1
