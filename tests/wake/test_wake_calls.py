"""Wake callbacks: after every kind of change, with the time of the next due work, few for a burst and never none."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from datetime import UTC, datetime, timedelta

import pytest
from calls import Calls
from steps import wait_until

import bandog
from bandog import Job


def claimed(queue, **options):
    queue.enqueue(job_id="claimed", priority=9, max_attempts=9, **options)
    (claim,) = queue.claim(lease=300)
    return claim


CHANGES = {
    "enqueue": (lambda _queue: None, lambda queue, _: queue.enqueue()),
    "ingest": (lambda _queue: None, lambda queue, _: queue.ingest(Job())),
    "ingest_many": (lambda _queue: None, lambda queue, _: queue.ingest_many([Job(), Job()])),
    "claim": (lambda queue: queue.enqueue(), lambda queue, _: queue.claim(lease=300)),
    "acknowledge": (claimed, lambda queue, claim: queue.acknowledge(claim)),
    "retry": (claimed, lambda queue, claim: queue.fail(claim, "why", retry_in=0)),
    "snooze": (claimed, lambda queue, claim: queue.settle(claim, bandog.Snooze(50))),
    "release": (claimed, lambda queue, claim: queue.release(claim)),
    "cancel": (lambda queue: queue.enqueue(job_id="a"), lambda queue, _: queue.cancel("a")),
    "fail_lane": (lambda queue: queue.enqueue(), lambda queue, _: queue.fail_lane("default", "default", "why")),
    "requeue": (
        lambda queue: queue.fail(claimed(queue), "why", retry=False),
        lambda queue, _: queue.requeue("claimed"),
    ),
}


def same_time(told, now):
    """Ends of leases are told as wall time, by two clocks that are read one after the other."""
    return told == now or (None not in (told, now) and abs(told - now) < timedelta(milliseconds=5))


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_told_with_the_next_due_time_after_it(queue, change):
    before, after = CHANGES[change]
    prepared = before(queue)
    calls = Calls()
    queue.wake.add(calls)
    calls.clear()
    after(queue, prepared)
    calls.wait(1)
    calls.rest()
    assert same_time(calls.told[-1], queue.next_wake())
    for due in calls.told:
        assert due is None or due.tzinfo is not None


def test_a_recovered_job_is_told(path):
    clock = bandog.testing.FakeClock()
    with bandog.connect(path, clock=clock) as queue:
        queue.enqueue(job_id="a")
        queue.claim(lease=60)
        calls = Calls()
        queue.wake.add(calls)
        calls.clear()
        clock.advance(61)
        assert queue.recover() == (("a",), ())
        calls.wait(1)
        calls.rest()
        assert same_time(calls.told[-1], queue.next_wake())


def test_the_first_call_tells_of_what_was_there_before(queue):
    due = datetime.now(UTC) + timedelta(hours=1)
    queue.enqueue(available_at=due)
    calls = Calls()
    queue.wake.add(calls)
    calls.wait(1)
    assert abs(calls.told[0] - due) < timedelta(milliseconds=1)


def test_a_callback_given_to_connect_is_told_that_nothing_is_pending_and_then_of_the_first_job(path):
    calls = Calls()
    with bandog.connect(path, wake=calls) as queue:
        calls.wait(1)
        assert calls.told == [None]
        queue.enqueue()
        calls.wait(2)
        assert calls.told[-1] <= datetime.now(UTC)


def test_a_delayed_job_is_told_with_its_time_and_an_earlier_one_with_its_own(queue):
    calls = Calls()
    queue.wake.add(calls)
    for seconds in (1000, 500, 2000):
        queue.enqueue(job_id=f"{seconds}", delay=seconds)
    wait_until(lambda: calls.told[-1:] == [queue.read("500").available_at], "the earliest is told")
    queue.cancel("500")
    wait_until(lambda: calls.told[-1] == queue.read("1000").available_at, "the next one is told")


def test_looks_are_no_changes(queue):
    queue.enqueue(job_id="a")
    calls = Calls()
    queue.wake.add(calls)
    calls.clear()
    for _ in range(20):
        queue.read("a")
        queue.jobs()
        queue.stats()
        queue.has_pending_work()
        queue.next_wake()
        queue.dead_letters()
    assert calls.rest() == 0


def test_a_burst_of_a_thousand_jobs_is_few_calls_and_never_none(queue):
    calls = Calls()
    queue.wake.add(calls)
    calls.clear()
    for number in range(10):
        queue.ingest_many([Job() for _ in range(1000)])
        calls.wait(1)
        assert calls.rest() <= 4, number
        calls.told.clear()


def test_while_a_callback_is_at_work_changes_pile_up_to_one_more_call(queue):
    entered, go_on = threading.Event(), threading.Event()
    calls = Calls()

    def slow(due):
        entered.set()
        assert go_on.wait(30)
        calls(due)

    queue.wake.add(slow)
    assert entered.wait(30)
    for _ in range(50):
        queue.enqueue()
    go_on.set()
    calls.wait(2)
    assert calls.rest() <= 3
    assert same_time(calls.told[-1], queue.next_wake())


def test_after_the_last_change_there_is_always_a_call(queue):
    """A change that comes while the callback returns must not be lost."""
    calls = Calls()
    queue.wake.add(calls)
    for number in range(300):
        due = queue.enqueue(job_id=f"{number}", delay=10_000 - number).job.available_at
        wait_until(lambda due=due: calls.told[-1:] == [due], f"job {number} is told")


def test_an_asynchronous_queue_tells_too(path):
    calls = Calls()

    async def main():
        async with await bandog.connect_async(path, wake=calls) as queue:
            await asyncio.to_thread(calls.wait, 1)
            await queue.enqueue(delay=1000)
            await asyncio.to_thread(calls.wait, 2)
            assert same_time(calls.told[-1], await queue.next_wake())

    asyncio.run(main())


# What a callback may do, and what it may not break.


@pytest.mark.parametrize("error", [ValueError("broken"), OSError(), bandog.QueueClosed("as if")], ids=repr)
def test_an_exception_is_logged_and_harms_nothing(queue, caplog, error):
    calls = Calls()

    def broken(_due):
        raise error

    queue.wake.add(broken)
    queue.wake.add(calls)
    calls.clear()
    for number in range(3):
        assert queue.enqueue().kind == "admitted"
        calls.wait(number + 1)
    logged = [record for record in caplog.records if record.name == "bandog.wake"]
    assert len(logged) >= 4
    assert logged[0].exc_info[1] is error


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_an_exception_that_is_none_of_exception_s_ends_neither_the_thread_nor_the_process(queue, error):
    calls = Calls()

    def broken(due):
        calls(due)
        raise error

    queue.wake.add(broken)
    for number in range(3):
        calls.wait(number + 1)
        queue.enqueue()
    calls.wait(4)


def test_it_may_use_the_queue_that_calls_it(queue):
    done = threading.Event()
    problems = []

    def use(_due):
        try:
            if done.is_set():
                return
            queue.enqueue(job_id="from the callback")
            queue.ingest_many([Job() for _ in range(10)])
            for claim in queue.claim(limit=100, lease=300):
                queue.acknowledge(claim)
            queue.cancel(queue.enqueue().job_id)
            assert queue.read("from the callback").state == "settled"
            assert queue.stats().outcomes["completed"] >= 11
            bandog.Watchdog(queue, lambda _job, _cancel: None).tick()
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            problems.append(error)
        finally:
            done.set()

    queue.wake.add(use)
    assert done.wait(30)
    assert problems == []


def test_it_may_close_the_queue_that_calls_it(path):
    closed = threading.Event()
    queue = bandog.connect(path)

    def close(_due):
        queue.close()
        closed.set()

    queue.wake.add(close)
    assert closed.wait(30)
    with pytest.raises(bandog.QueueClosed):
        queue.enqueue()


def test_it_may_add_and_remove_callbacks(queue):
    calls = Calls()

    def once(_due):
        queue.wake.remove(once)
        queue.wake.add(calls)

    queue.wake.add(once)
    calls.wait(1)
    queue.enqueue()
    calls.wait(2)
    wait_until(lambda: calls.told[-1] is not None, "the job is told")


def test_calls_of_the_queue_go_on_while_a_callback_is_stuck(queue):
    entered, go_on = threading.Event(), threading.Event()

    def stuck(_due):
        entered.set()
        go_on.wait(60)

    queue.wake.add(stuck)
    assert entered.wait(30)
    try:
        for _ in range(20):
            queue.enqueue()
        assert len(queue.claim(limit=50)) == 20
    finally:
        go_on.set()


# Adding, removing, closing.


def test_one_that_was_removed_is_called_no_more_and_the_others_go_on(queue):
    kept, removed = Calls(), Calls()
    queue.wake.add(kept)
    queue.wake.add(removed)
    removed.wait(1)
    kept.rest()
    queue.wake.remove(removed)
    before = removed.rest()
    told = kept.rest()
    queue.enqueue()
    kept.wait(told + 1)
    assert removed.rest() == before
    queue.wake.remove(kept)
    queue.wake.remove(kept)
    before = kept.rest()
    queue.enqueue()
    assert kept.rest() == before


def test_none_is_called_after_the_queue_is_closed(path):
    """Nor by a call that was on its way when it was closed: a host has torn down what its callback uses."""
    late = []
    for _ in range(100):
        queue = bandog.connect(path, synchronous="normal")
        closed = threading.Event()
        entered = threading.Event()

        def wake(_due, closed=closed, entered=entered):
            if closed.is_set():
                late.append(1)
            entered.set()

        queue.wake.add(wake)
        assert entered.wait(30)
        queue.enqueue()
        queue.close()
        closed.set()
    calls = Calls()
    calls.rest()
    assert late == []


def test_adding_to_a_closed_queue_is_refused_and_removing_is_not_needed(path):
    calls = Calls()
    queue = bandog.connect(path)
    queue.wake.add(calls)
    calls.wait(1)
    queue.close()
    with pytest.raises(bandog.QueueClosed):
        queue.wake.add(Calls())
    with contextlib.suppress(bandog.QueueClosed):
        queue.wake.remove(calls)
    before = calls.rest()
    with bandog.connect(path) as other:
        other.enqueue()
    assert calls.rest() == before
