"""Close: finish what is under way, let go of the store, refuse what comes later."""

import threading
from contextlib import suppress

import pytest
from steps import Background, claim_one, wait_until, watchdog

from bandog import BandogError, Completed, Job, QueueClosed

CALLS = {
    "ingest": lambda queue, _claim: queue.ingest(Job(job_id="new")),
    "ingest_many": lambda queue, _claim: queue.ingest_many([Job(job_id="new")]),
    "enqueue": lambda queue, _claim: queue.enqueue(1, job_id="new"),
    "claim": lambda queue, _claim: queue.claim(),
    "renew": lambda queue, claim: queue.renew(claim),
    "settle": lambda queue, claim: queue.settle(claim, Completed()),
    "settle_many": lambda queue, claim: queue.settle_many([(claim, Completed())]),
    "acknowledge": lambda queue, claim: queue.acknowledge(claim),
    "fail": lambda queue, claim: queue.fail(claim, "why"),
    "cancelled": lambda queue, claim: queue.cancelled(claim),
    "outcome_unknown": lambda queue, claim: queue.outcome_unknown(claim),
    "release": lambda queue, claim: queue.release(claim),
    "recover": lambda queue, _claim: queue.recover(),
    "read": lambda queue, _claim: queue.read("a"),
    "has_pending_work": lambda queue, _claim: queue.has_pending_work(),
    "next_wake": lambda queue, _claim: queue.next_wake(),
    "tick": lambda queue, _claim: watchdog(queue, lambda _job, _token: None).tick(),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_later_call_says_that_the_queue_is_closed(store, call):
    queue = store.connect()
    queue.enqueue(job_id="a")
    claim = claim_one(queue, "a")
    # A connection for reading, too, may be open by now.
    queue.read("a")
    queue.close()
    for _ in range(2):
        with pytest.raises(QueueClosed) as caught:
            CALLS[call](queue, claim)
        assert isinstance(caught.value, BandogError)
        assert "connect" in str(caught.value)
    reopened = store.connect()
    assert reopened.read("a").state == "running"
    assert reopened.acknowledge(claim).kind == "completed"


def test_closing_twice_is_allowed(queue):
    queue.close()
    queue.close()


def test_a_queue_is_a_context_manager_that_closes_it(store):
    with store.connect() as queue:
        queue.enqueue(job_id="a")
    with pytest.raises(QueueClosed):
        queue.read("a")
    assert store.connect().read("a").state == "queued"


def test_an_exception_in_the_context_closes_the_queue_and_goes_on(store):
    with pytest.raises(KeyError), store.connect() as queue:
        raise KeyError
    with pytest.raises(QueueClosed):
        queue.claim()


def test_closing_one_queue_leaves_the_others_open(store):
    first, second = store.connect(), store.connect()
    first.enqueue(job_id="a")
    first.close()
    assert second.read("a").state == "queued"
    second.enqueue(job_id="b")
    second.close()
    assert [claim.job_id for claim in store.connect().claim(limit=9)] == ["a", "b"]


def test_a_repr_shows_neither_options_nor_secrets(queue):
    assert "Queue" in repr(queue)
    queue.close()
    assert "Queue" in repr(queue)


def test_every_call_under_way_ends_stored_or_refused(store):
    """Eight threads ingest while the queue is closed: what was answered is stored, and nothing else hangs."""
    queue = store.connect()
    started = threading.Barrier(9)

    def ingest(thread):
        admitted = []
        started.wait(30)
        with suppress(QueueClosed):
            while True:
                admitted.append(queue.enqueue(job_id=f"{thread}-{len(admitted)}").job_id)
        return admitted

    running = [Background(lambda thread=thread: ingest(thread)) for thread in range(8)]
    started.wait(30)
    wait_until(queue.has_pending_work, "the first job is stored")
    queue.close()
    admitted = [job_id for thread in running for job_id in thread.join()]
    assert admitted
    stored = {claim.job_id for claim in store.connect().claim(limit=100_000)}
    assert set(admitted) <= stored


def test_closing_stops_the_renewals(store):
    queue = store.connect()
    queue.enqueue(job_id="a")
    with pytest.raises(QueueClosed):
        watchdog(queue, lambda _job, _token: queue.close(), lease=60).tick()
    # The claim lapses, and the job is recovered.
    store.advance(61)
    assert claim_one(store.connect(), "a").attempt == 2
