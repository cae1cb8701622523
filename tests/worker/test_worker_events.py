"""What a worker tells of its work: events after the record, counts that add up, and logs with the job's identity."""

import asyncio
import logging
import threading
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta

import pytest
from executors import RAISES
from steps import wait_until

import bandog
from bandog import Backoff, Completed, Event
from bandog.testing import FakeClock


class Listener:
    """Keeps the batches of events, and on which threads they came."""

    def __init__(self):
        self.batches = []
        self.threads = set()

    def __call__(self, events):
        assert type(events) is list
        self.batches.append(list(events))
        self.threads.add(threading.current_thread())

    @property
    def events(self):
        return [event for batch in self.batches for event in batch]

    def kinds(self, job_id=None):
        return [event.kind for event in self.events if job_id in (None, event.job_id)]

    def await_kinds(self, job_id, kinds):
        with suppress(AssertionError):
            wait_until(lambda: self.kinds(job_id) == kinds, "events", 10)
        assert self.kinds(job_id) == kinds


OUTCOMES = {
    "Completed": "completed",
    "Failed": "failed",
    "Cancelled": "cancelled",
    "OutcomeUnknown": "outcome_unknown",
    "Failed-later": "retried",
    "Snooze": "snoozed",
}


def test_there_is_an_event_for_every_change_and_the_counts_add_up(bench):
    listener = Listener()
    for name in OUTCOMES:
        bench.ingest("answers", name, what=name, budget={"max_attempts": 5 if name == "Failed-later" else None})
    worker = bench.burst(on_events=listener)
    for name, kind in OUTCOMES.items():
        listener.await_kinds(name, ["claimed", kind])
    stats = worker.stats()
    assert (stats.claimed, stats.started) == (len(OUTCOMES), len(OUTCOMES))
    for kind in OUTCOMES.values():
        assert getattr(stats, kind) == 1
    assert (stats.stale, stats.released, stats.recovered, stats.interrupted) == (0, 0, 0, 0)
    assert (stats.running, stats.waiting, stats.unrecorded, stats.problem, stats.state) == (0, 0, 0, None, "stopped")
    assert len(listener.threads) == 1
    assert listener.threads != {threading.main_thread()}


def test_an_event_has_the_jobs_facts(bench):
    listener = Listener()
    bench.ingest("answers", "failed", what="Failed", budget={"queue": "q"})
    bench.ingest("answers", "later", what="Failed-later", budget={"queue": "q", "max_attempts": 2})
    bench.ingest("answers", "snoozed", what="Snooze", budget={"queue": "q"})
    bench.ingest("answers", "cancelled", what="Cancelled", budget={"queue": "q"})
    before = datetime.now(UTC)
    bench.burst(on_events=listener)
    wait_until(lambda: len(listener.events) == 8, "all events")
    events = {(event.job_id, event.kind): event for event in listener.events}
    assert events["failed", "claimed"] == Event("claimed", "failed", "q", 1)
    assert events["failed", "failed"] == Event("failed", "failed", "q", 1, None, "said so")
    assert events["cancelled", "cancelled"] == Event("cancelled", "cancelled", "q", 1, None, "by itself")
    for name, kind in (("later", "retried"), ("snoozed", "snoozed")):
        due = events[name, kind].available_at
        assert due.tzinfo is not None
        assert timedelta(minutes=59) < due - before < timedelta(minutes=61)
        assert due == bench.queue.read(name).available_at
    assert events["later", "retried"].reason == "said so"
    with pytest.raises(AttributeError):
        events["failed", "failed"].kind = "other"


def test_an_event_is_told_after_the_record(bench):
    seen = []

    def on_events(events):
        with closing(bandog.connect(bench.path)) as other:
            seen.extend((event.kind, other.read(event.job_id).state) for event in events)

    bench.ingest("no_op", "a")
    bench.ingest("raises", "b", what="ValueError")
    bench.burst(on_events=on_events)
    wait_until(lambda: len(seen) == 4, "all events")
    assert [state for kind, state in seen if kind in {"completed", "failed"}] == ["settled", "settled"]


def test_a_hand_over_of_many_changes_is_one_list(bench):
    listener = Listener()
    bench.queue.ingest_many([bench.job("no_op", f"job-{number:02}") for number in range(30)])
    bench.burst(prefetch=100, on_events=listener)
    wait_until(lambda: listener.kinds().count("completed") == 30, "all are done")
    assert listener.batches[0] == [Event("claimed", f"job-{number:02}", "default", 1) for number in range(30)]
    assert all(listener.batches)


def test_a_released_job_and_one_that_was_never_started(bench):
    listener = Listener()
    bench.ingest("holds", "a", budget={"priority": 1})
    bench.ingest("noted", "b")
    worker = bench.start(prefetch=5, on_events=listener)
    bench.await_note("a", "started")
    wait_until(lambda: worker.stats().waiting == 1, "b is claimed ahead")
    bench.stop(worker, 0.0)
    listener.await_kinds("a", ["claimed", "released"])
    listener.await_kinds("b", ["claimed", "released"])
    stats = worker.stats()
    assert (stats.claimed, stats.started, stats.released, stats.unrecorded) == (2, 1, 2, 0)


def test_lost_claims_of_others_are_told_of(bench):
    bench.queue.close()
    clock = FakeClock()
    bench.open(clock=clock)
    bench.queue.enqueue(job_id="back", queue="elsewhere", max_recoveries=1)
    bench.queue.enqueue(job_id="gone", queue="elsewhere", max_recoveries=0)
    assert len(bench.queue.claim(limit=2, lease=1.0)) == 2
    clock.advance(2)
    listener = Listener()
    worker = bench.burst(queues="default", on_events=listener)
    wait_until(lambda: len(listener.events) == 2, "both are told of")
    assert sorted(listener.events, key=lambda event: event.job_id) == [
        Event("recovered", "back"),
        Event("interrupted", "gone"),
    ]
    assert (worker.stats().recovered, worker.stats().interrupted, worker.stats().claimed) == (1, 1, 0)


@pytest.mark.kinds("processes")
def test_a_lost_claim_of_ones_own_has_its_facts(bench):
    listener = Listener()
    bench.ingest("dies", "a", times=99, budget={"max_attempts": 2})
    worker = bench.start(on_events=listener)
    bench.settled("a")
    listener.await_kinds("a", ["claimed", "recovered", "claimed", "interrupted"])
    assert [(event.queue, event.attempt) for event in listener.events] == [("default", n) for n in (1, 1, 2, 2)]
    bench.await_counts(worker, claimed=2, started=2, recovered=1, interrupted=1)


@pytest.mark.parametrize("error", [ValueError("mine"), SystemExit(1), KeyboardInterrupt()], ids=repr)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_callback_that_raises_is_told_of_and_harmless(bench, error, caplog, monkeypatch):
    unraisable = []
    monkeypatch.setattr("sys.unraisablehook", lambda what: unraisable.append(what.exc_value))
    called = []

    def on_events(events):
        called.append(events)
        raise error

    for name in ("a", "b"):
        bench.ingest("no_op", name)
    worker = bench.start(on_events=on_events)
    for name in ("a", "b"):
        assert bench.settled(name).outcome == Completed()
    wait_until(lambda: sum(map(len, called)) == 4, "it is called all the same")
    assert worker.running

    def told():
        return [record for record in caplog.records if record.levelno == logging.ERROR] + unraisable

    wait_until(lambda: len(told()) == len(called), "each is told of")


def test_a_callback_may_use_the_queue_and_stop_the_worker(bench):
    done = threading.Event()

    def on_events(events):
        if any(event.kind == "completed" for event in events):
            worker.stop(wait=False)
            done.set()

    bench.ingest("no_op", "a")
    worker = bench.worker(on_events=on_events)
    bench.begin(worker)
    assert done.wait(30)
    wait_until(lambda: worker.stats().state == "stopped", "it stops")
    assert bench.settled("a").outcome == Completed()


def test_the_counts_while_jobs_run_and_wait(bench):
    worker = bench.worker(at_once=2, prefetch=3)
    assert worker.stats() == bandog.WorkerStats(state="new")
    for number in range(7):
        bench.ingest("holds", f"job-{number}")
    bench.begin(worker)
    bench.await_note("job-0", "started")
    bench.await_note("job-1", "started")
    wait_until(lambda: worker.stats().waiting == 3, "as many wait as are to be claimed ahead")
    stats = worker.stats()
    assert (stats.state, stats.running, stats.claimed, stats.started) == ("running", 2, 5, 2)
    assert bench.queue.stats().queues["default"].queued == 2
    for number in range(7):
        bench.let_go(f"job-{number}")
    for number in range(7):
        bench.settled(f"job-{number}")
    bench.await_counts(worker, completed=7, running=0, waiting=0, claimed=7, started=7)
    with pytest.raises(AttributeError):
        stats.claimed = 0


# Logs


def raised(caplog):
    return [record for record in caplog.records if " raised " in record.message]


def test_a_failure_is_logged_with_the_jobs_identity(bench, caplog):
    budget = {"queue": "q", "max_attempts": 2, "backoff": Backoff(0.01)}
    bench.ingest("raises", "a", what="ValueError", budget=budget)
    bench.start()
    bench.settled("a")
    wait_until(lambda: len(raised(caplog)) == 2, "both failures are logged")
    for record, attempt in zip(raised(caplog), (1, 2), strict=True):
        assert (record.name, record.levelno) == ("bandog.worker", logging.WARNING)
        assert (record.job_id, record.queue, record.attempt) == ("a", "q", attempt)
        assert "ValueError" in caplog.text
        assert "executors.py" in caplog.text


def test_every_kind_of_exception_is_logged(bench, caplog):
    for name in RAISES:
        bench.ingest("raises", name, what=name)
    bench.start()
    for name in RAISES:
        bench.settled(name)
    wait_until(lambda: len(raised(caplog)) == len(RAISES), "all failures are logged")
    assert {record.job_id for record in raised(caplog)} == set(RAISES)


@pytest.mark.parametrize("why", ["cancel", "timeout", "stop"])
def test_a_job_that_stopped_as_it_was_told_is_not_logged(bench, caplog, why):
    bench.ingest("holds", "a", budget={"timeout": 0.1 if why == "timeout" else None})
    worker = bench.start()
    bench.await_note("a", "started")
    if why == "cancel":
        bench.queue.cancel("a", "not wanted")
    elif why == "stop":
        bench.stop(worker, 0.0)
    bench.reaches("a", lambda record: record.state != "running")
    bench.ingest("no_op", "b")
    if why != "stop":
        bench.settled("b")
        bench.stop(worker)
    assert [record for record in caplog.records if hasattr(record, "job_id")] == []


@pytest.mark.parametrize("answer", ["Failed", "number", "Snooze", "OutcomeUnknown"])
def test_what_was_only_reported_is_not_logged_as_raised(bench, caplog, answer):
    bench.ingest("answers", "a", what=answer)
    bench.burst()
    assert raised(caplog) == []


@pytest.mark.parametrize("error", [ValueError("mine"), SystemExit(1)], ids=repr)
def test_a_log_handler_that_raises_costs_no_job_its_outcome(bench, error):
    class Raising(logging.Handler):
        def emit(self, record):
            if hasattr(record, "job_id"):
                raise error

    handler = Raising()
    log = logging.getLogger("bandog.worker")
    log.addHandler(handler)
    try:
        for name in ("a", "b"):
            bench.ingest("raises", name, what="ValueError")
        bench.start()
        for name in ("a", "b"):
            assert bench.settled(name).outcome.kind == "failed"
    finally:
        log.removeHandler(handler)


@pytest.mark.kinds("threads", "async")
def test_a_log_handler_may_use_the_queue(bench):
    class Asking(logging.Handler):
        def emit(self, record):
            if hasattr(record, "job_id"):
                with closing(bandog.connect(bench.path)) as other:
                    states.append(other.read(record.job_id).state)

    states = []
    handler = Asking()
    log = logging.getLogger("bandog.worker")
    log.addHandler(handler)
    try:
        bench.ingest("raises", "a", what="ValueError")
        bench.start()
        bench.settled("a")
        wait_until(lambda: states, "it is asked")
    finally:
        log.removeHandler(handler)


def test_secrets_are_not_logged(bench, caplog):
    caplog.set_level(logging.DEBUG)
    bench.ingest("raises", "a", what="OwnBase", key="hunter2")
    worker = bench.start()
    bench.settled("a")
    bench.stop(worker)
    assert "hunter2" not in caplog.text
    assert "hunter2" not in repr(worker)


@pytest.mark.kinds("coroutines", "async")
def test_no_complaint_of_the_loop_is_left(bench, caplog):
    """A task that raised, or was never awaited, would be told of by asyncio."""
    for name in ("a", "b"):
        bench.ingest("raises", name, what="OwnBase")
    bench.burst()
    asyncio.run(asyncio.sleep(0))
    assert [record for record in caplog.records if record.name == "asyncio"] == []
