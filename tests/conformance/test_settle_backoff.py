"""Settle: how long a failed job waits."""

import itertools
from datetime import timedelta

import pytest
from steps import LEASE, claim_one

from bandog import Backoff, Failed, InvalidJob, Job


def waits(store, queue, attempts, **options):
    """The waits after each of so many failures of job ``a``, in seconds."""
    found = []
    for _ in range(attempts):
        claim = claim_one(queue, "a", lease=LEASE)
        before = store.now()
        settlement = queue.fail(claim, "again", **options)
        assert settlement.kind == "retried"
        assert queue.read("a").available_at == settlement.available_at
        found.append(settlement.available_at - before)
        store.advance(found[-1].total_seconds() + 0.01)
    return [wait.total_seconds() for wait in found]


def about(store, actual, expected):
    slack = store.tolerance.total_seconds()
    return len(actual) == len(expected) and all(
        abs(wait - right) <= slack for wait, right in zip(actual, expected, strict=True)
    )


def test_the_wait_doubles_from_one_second_to_sixty_by_default(store, queue):
    queue.enqueue(job_id="a", max_attempts=99)
    assert about(store, waits(store, queue, 9), [1, 2, 4, 8, 16, 32, 60, 60, 60])


def test_the_job_brings_its_own_backoff(store, queue):
    queue.enqueue(job_id="a", max_attempts=99, backoff=Backoff(base=3, cap=timedelta(seconds=20)))
    assert about(store, waits(store, queue, 5), [3, 6, 12, 20, 20])


def test_the_report_may_bring_another_backoff(store, queue):
    queue.enqueue(job_id="a", max_attempts=99, backoff=Backoff(base=1000, cap=2000))
    assert about(store, waits(store, queue, 4, backoff=Backoff(base=timedelta(seconds=2), cap=9)), [2, 4, 8, 9])
    # It counted for those reports only.
    assert about(store, waits(store, queue, 1), [2000])


@pytest.mark.parametrize("base", [1.1, 2, 5, 0.000_001, 3000])
def test_seventy_failures_never_go_down_and_never_past_the_cap(store, queue, base):
    cap = 3600
    queue.enqueue(job_id="a", max_attempts=99, backoff=Backoff(base=base, cap=cap))
    found = waits(store, queue, 70)
    assert about(store, found, [min(cap, base * 2.0**doublings) for doublings in range(70)])
    slack = store.tolerance.total_seconds()
    assert all(0 < wait <= cap + slack for wait in found)
    assert all(after >= before - slack for before, after in itertools.pairwise(found))


def test_a_base_of_zero_is_allowed_and_never_waits_backwards(store, queue):
    queue.enqueue(job_id="a", max_attempts=99, backoff=Backoff(base=0, cap=0))
    assert all(0 <= wait <= 0.001 + store.tolerance.total_seconds() for wait in waits(store, queue, 70))


def test_a_century_is_the_longest_wait(store, queue):
    century = 100 * 366 * 86_400
    queue.enqueue(job_id="a", max_attempts=99, backoff=Backoff(base=century, cap=century))
    due = queue.fail(claim_one(queue, "a"), "again").available_at
    assert store.is_about(due, store.now() + timedelta(seconds=century))
    assert store.reopen().read("a").available_at == due


@pytest.mark.parametrize("jitter", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("charged", [1, 4, 9])
def test_jitter_shortens_the_wait_within_its_band(store, queue, jitter, charged):
    base, cap, count = 100, 3000, 40
    backoff = Backoff(base=base, cap=cap, jitter=jitter)
    queue.ingest_many(Job(job_id=f"{number}", max_attempts=99, backoff=backoff) for number in range(count))
    for _ in range(charged - 1):
        claims = queue.claim(limit=count, lease=LEASE)
        queue.settle_many((claim, Failed("again", retry_in=0)) for claim in claims)
        store.advance(0.01)
    before = store.now()
    claims = queue.claim(limit=count, lease=LEASE)
    assert len(claims) == count
    settlements = queue.settle_many((claim, Failed("again")) for claim in claims)
    found = [(settlement.available_at - before).total_seconds() for settlement in settlements]
    full, slack = min(cap, base * 2 ** (charged - 1)), store.tolerance.total_seconds()
    assert all(full * (1 - jitter) - 0.000_001 <= wait <= full + slack for wait in found)
    assert all(wait > 0 for wait in found)
    # Forty draws from a band this wide are not all alike, and do not keep to a corner of it.
    assert max(found) - min(found) > full * jitter * 0.25


def test_no_jitter_is_the_same_wait_for_all(store, queue):
    queue.ingest_many(Job(max_attempts=9) for _ in range(20))
    claims = queue.claim(limit=20)
    due = {settlement.available_at for settlement in queue.settle_many((claim, Failed("x")) for claim in claims)}
    assert max(due) - min(due) <= store.tolerance


@pytest.mark.parametrize("retry_in", [0, 500, timedelta(seconds=500)], ids=repr)
def test_retry_in_stands_above_every_backoff(store, queue, retry_in):
    queue.enqueue(job_id="a", max_attempts=99, backoff=Backoff(base=1000, cap=2000))
    options = {"retry_in": retry_in, "backoff": Backoff(base=7, cap=7)}
    seconds = retry_in.total_seconds() if isinstance(retry_in, timedelta) else retry_in
    assert about(store, waits(store, queue, 3, **options), [seconds] * 3)


def test_retry_in_grants_no_attempt_that_the_budget_does_not(queue):
    queue.enqueue(job_id="a")
    assert queue.fail(claim_one(queue, "a"), "final", retry_in=5).kind == "failed"
    queue.enqueue(job_id="b", max_attempts=1)
    assert queue.fail(claim_one(queue, "b"), "final", retry_in=5).kind == "failed"


def test_no_retry_is_final_whatever_the_budget(queue):
    queue.enqueue(job_id="a", max_attempts=99)
    assert queue.fail(claim_one(queue, "a"), "no use", retry=False, retry_in=5).kind == "failed"
    assert queue.read("a").state == "settled"


def test_attempts_that_were_given_back_do_not_lengthen_the_wait(store, queue):
    queue.enqueue(job_id="a", max_attempts=99)
    for _ in range(5):
        queue.release(claim_one(queue, "a"))
    assert about(store, waits(store, queue, 2), [1, 2])


def test_lost_claims_lengthen_the_wait(store, queue):
    queue.enqueue(job_id="a", max_attempts=99)
    for _ in range(3):
        claim_one(queue, "a", lease=LEASE)
        store.advance(LEASE + 1)
    assert about(store, waits(store, queue, 1), [8])


@pytest.mark.parametrize(
    "backoff",
    [Backoff(base=2, cap=1), Backoff(base=-1), Backoff(jitter=2), Backoff(base=float("nan")), Backoff(cap="1")],
    ids=repr,
)
def test_a_backoff_that_is_not_allowed_is_refused_and_the_claim_holds_on(queue, backoff):
    queue.enqueue(job_id="a", max_attempts=9)
    claim = claim_one(queue, "a")
    with pytest.raises(InvalidJob) as caught:
        queue.fail(claim, "why", backoff=backoff)
    assert caught.value.field.startswith("backoff")
    assert queue.acknowledge(claim).kind == "completed"
