"""Has pending work: whether any job is queued (also for later) or running."""

import pytest
from steps import LEASE, claim_one

from bandog import Snooze


def test_an_empty_store_has_none(queue):
    assert queue.has_pending_work() is False


def test_a_queued_job_is_pending(store, queue):
    queue.enqueue()
    assert queue.has_pending_work() is True
    assert store.connect().has_pending_work() is True
    assert store.reopen().has_pending_work() is True


def test_a_job_of_a_later_time_is_pending(queue):
    queue.enqueue(delay=1_000_000)
    assert queue.has_pending_work() is True


def test_a_running_job_is_pending_until_it_is_settled(queue):
    queue.enqueue()
    claim = claim_one(queue)
    assert queue.has_pending_work() is True
    queue.acknowledge(claim)
    assert queue.has_pending_work() is False


def test_a_lost_job_is_pending_until_it_is_interrupted(store, queue):
    queue.enqueue(max_recoveries=0)
    claim_one(queue)
    store.advance(LEASE + 1)
    assert queue.has_pending_work() is True
    queue.recover()
    assert queue.has_pending_work() is False


@pytest.mark.parametrize("settle", ["acknowledge", "cancelled", "outcome_unknown"])
def test_a_settled_job_is_not_pending(queue, settle):
    queue.enqueue()
    getattr(queue, settle)(claim_one(queue))
    assert queue.has_pending_work() is False


def test_a_job_that_was_put_back_is_pending(queue):
    queue.enqueue(max_attempts=2)
    queue.fail(claim_one(queue), "why", retry_in=0)
    assert queue.has_pending_work() is True
    queue.settle(claim_one(queue), Snooze(99))
    assert queue.has_pending_work() is True
