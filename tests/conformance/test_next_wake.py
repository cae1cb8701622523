"""Next wake: when the next queued job is due or the next claim expires."""

from datetime import timedelta

from steps import LEASE, claim_one

from bandog import Job, Snooze


def test_with_nothing_pending_there_is_none(queue):
    assert queue.next_wake() is None
    queue.enqueue()
    queue.acknowledge(claim_one(queue))
    assert queue.next_wake() is None


def test_a_job_that_is_due_wakes_at_once(store, queue):
    queue.enqueue()
    due = store.now()
    assert store.is_about(queue.next_wake(), due)
    store.advance(500)
    assert queue.next_wake() <= store.now() - timedelta(seconds=500) + store.tolerance


def test_a_job_of_a_later_time_wakes_then(store, queue):
    queue.enqueue(delay=3600)
    assert store.is_about(queue.next_wake(), store.now() + timedelta(hours=1))
    assert queue.next_wake().utcoffset() == timedelta(0)
    assert store.is_about(store.reopen().next_wake(), store.now() + timedelta(hours=1))


def test_the_earliest_of_all_queues_and_priorities_counts(store, queue):
    delays = {("a", 5): 900, ("a", 0): 700, ("a", -5): 800, ("b", 9): 1000, ("c", -9): 600}
    for (name, priority), delay in delays.items():
        queue.enqueue(queue=name, priority=priority, delay=delay)
        queue.enqueue(queue=name, priority=priority, delay=delay + 5000)
    for name in ("c", "a", "a", "a", "b"):
        earliest = min(delay for (other, _), delay in delays.items())
        assert store.is_about(queue.next_wake(), store.now() + timedelta(seconds=earliest))
        store.advance(earliest + 1)
        queue.acknowledge(claim_one(queue, queues=name))
        delays = {key: delay - earliest - 1 for key, delay in delays.items() if delay != earliest}


def test_a_running_claim_wakes_when_it_expires(store, queue):
    queue.enqueue()
    claim = claim_one(queue, lease=LEASE)
    assert store.is_about(queue.next_wake(), store.now() + timedelta(seconds=LEASE))
    queue.renew(claim, lease=10 * LEASE)
    assert store.is_about(queue.next_wake(), store.now() + timedelta(seconds=10 * LEASE))
    assert queue.next_wake() == queue.read(claim.job_id).lease_until


def test_the_earlier_of_lease_and_schedule_counts(store, queue):
    queue.ingest_many([Job(job_id="first"), Job(job_id="second")])
    claim_one(queue, "first", lease=1000)
    claim_one(queue, "second", lease=2000)
    queue.enqueue(delay=1500)
    assert store.is_about(queue.next_wake(), store.now() + timedelta(seconds=1000))
    queue.enqueue(delay=500)
    assert store.is_about(queue.next_wake(), store.now() + timedelta(seconds=500))


def test_a_lost_claim_wakes_at_once(store, queue):
    queue.enqueue()
    claim_one(queue, lease=LEASE)
    store.advance(LEASE + 100)
    assert queue.next_wake() <= store.now() - timedelta(seconds=99) + store.tolerance


def test_a_job_that_was_put_back_wakes_when_it_is_due(store, queue):
    queue.enqueue(max_attempts=5)
    for settle, delay in ((queue.fail, 700), (None, 800)):
        claim = claim_one(queue)
        if settle:
            queue.fail(claim, "why", retry_in=delay)
        else:
            queue.settle(claim, Snooze(delay))
        assert store.is_about(queue.next_wake(), store.now() + timedelta(seconds=delay))
        store.advance(delay + 1)
