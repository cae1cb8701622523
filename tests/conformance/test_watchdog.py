"""Watchdog: one tick recovers, then runs one job."""

import threading
from datetime import timedelta

import pytest
from steps import LEASE, Background, claim_one, everything, executor_of, tick, wait_until, watchdog

from bandog import (
    Cancelled,
    Completed,
    Failed,
    InvalidJob,
    Job,
    OutcomeUnknown,
    QueueClosed,
    Release,
    Snooze,
    Tick,
)


def test_a_tick_without_work_is_idle(queue):
    queue.enqueue(job_id="later", delay=1000)
    assert tick(queue, Completed()) == Tick(kind="idle")
    assert queue.read("later").attempts == 0


def test_a_tick_runs_one_job_and_records_its_outcome(store, queue):
    queue.ingest_many([Job(job_id="a", payload=1, priority=1), Job(job_id="b")])
    seen = []

    def execute(job, token):
        seen.append((job.job_id, job.payload, job.attempt, token.aborted, token.reason))
        assert queue.read("a").state == "running"
        return Completed({"n": 2})

    assert watchdog(queue, execute).tick() == Tick(kind="settled", job_id="a", outcome=Completed({"n": 2}))
    assert seen == [("a", 1, 1, False, None)]
    assert queue.read("a").outcome == Completed({"n": 2})
    assert queue.read("b").state == "queued"
    assert store.reopen().read("a").outcome == Completed({"n": 2})


REPORTED = [
    (None, "settled", Completed()),
    (Completed(), "settled", Completed()),
    (Completed([1, 2]), "settled", Completed([1, 2])),
    (Failed("why"), "settled", Failed("why")),
    (Cancelled(), "settled", Cancelled()),
    (Cancelled("told to"), "settled", Cancelled("told to")),
    (OutcomeUnknown(), "settled", OutcomeUnknown()),
    (OutcomeUnknown({"provider": "no answer"}), "settled", OutcomeUnknown({"provider": "no answer"})),
]


@pytest.mark.parametrize(("answer", "kind", "outcome"), REPORTED, ids=repr)
def test_every_outcome_is_recorded_as_reported(queue, answer, kind, outcome):
    queue.enqueue(job_id="a")
    assert tick(queue, answer) == Tick(kind=kind, job_id="a", outcome=outcome)
    assert queue.read("a").outcome == outcome


@pytest.mark.parametrize(
    "answer",
    [
        Completed((1, 2)),
        Completed(float("nan")),
        Completed({1}),
        Failed("why", retry=False),
        Failed("lone \ud800"),
        Failed("nul \0"),
        Cancelled("lone \ud800"),
        OutcomeUnknown(float("nan")),
        OutcomeUnknown((1, 2)),
        OutcomeUnknown({1}),
        ValueError("lone \ud800"),
    ],
    ids=ascii,
)
def test_the_outcome_of_a_tick_is_what_was_recorded(queue, answer):
    queue.enqueue(job_id="a")
    done = tick(queue, answer)
    assert (done.kind, done.outcome) == ("settled", queue.read("a").outcome)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(Failed("why", retry_in=100), "retried"), (Snooze(100), "snoozed"), (Release(), "released")],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_job_that_is_put_back_runs_again(store, queue, answer, kind):
    queue.enqueue(job_id="a", max_attempts=2)
    assert tick(queue, answer) == Tick(kind=kind, job_id="a")
    assert queue.read("a").state == "queued"
    store.advance(101)
    assert tick(queue, None).kind == "settled"
    assert queue.read("a").attempts == 2


def test_only_the_queues_that_were_named_are_run(queue):
    queue.ingest_many([Job(job_id="a", queue="a", priority=9), Job(job_id="b", queue="b"), Job(job_id="c", queue="c")])
    assert tick(queue, None, queues="b").job_id == "b"
    assert tick(queue, None, queues=["b", "c"]).job_id == "c"
    assert tick(queue, None, queues=["b", "c"]).kind == "idle"
    assert tick(queue, None).job_id == "a"


def test_worker_and_lease_are_recorded(store, queue):
    queue.enqueue(job_id="a")
    seen = []
    watchdog(queue, lambda job, _token: seen.append(queue.read(job.job_id)), worker="w-9", lease=300).tick()
    assert seen[0].worker == "w-9"
    assert store.is_about(seen[0].lease_until, store.now() + timedelta(seconds=300))


def test_a_tick_reports_what_it_recovered(store, queue):
    queue.ingest_many([Job(job_id="back"), Job(job_id="ends", max_recoveries=0)])
    queue.claim(limit=2, lease=LEASE)
    store.advance(LEASE + 1)
    assert tick(queue, None, queues="empty") == Tick(kind="idle", recovered=("back",), interrupted=("ends",))
    assert tick(queue, None) == Tick(kind="settled", job_id="back", outcome=Completed())


def test_a_tick_recovers_and_runs_the_same_job(store, queue):
    queue.enqueue(job_id="a")
    claim_one(queue, "a")
    store.advance(LEASE + 1)
    assert tick(queue, None) == Tick(kind="settled", job_id="a", outcome=Completed(), recovered=("a",))


# Single flight.


def test_a_second_tick_meanwhile_is_busy(store, queue):
    queue.ingest_many([Job(job_id="a"), Job(job_id="b")])
    started, finish = threading.Event(), threading.Event()

    def execute(_job, _token):
        started.set()
        assert finish.wait(30)

    dog = watchdog(queue, execute)
    running = Background(dog.tick)
    try:
        assert started.wait(30)
        before = everything(queue.read("b"))
        for _ in range(3):
            assert dog.tick() == Tick(kind="busy")
        assert everything(queue.read("b")) == before
        # It is one per runtime: another one runs the other job.
        assert watchdog(queue, executor_of(None)).tick().job_id == "b"
    finally:
        finish.set()
    assert running.join().job_id == "a"
    assert dog.tick().kind == "idle"
    assert store.connect().read("a").outcome == Completed()


def test_a_tick_inside_a_tick_is_busy(queue):
    queue.enqueue(job_id="a")
    inner = []
    dog = watchdog(queue, lambda _job, _token: inner.append(dog.tick()))
    assert dog.tick().kind == "settled"
    assert inner == [Tick(kind="busy")]


def test_an_executor_may_use_the_queue(store, queue):
    queue.enqueue(job_id="parent")

    def execute(job, _token):
        queue.enqueue(job_id="child", payload=job.payload)
        return Completed(store.connect().read(job.job_id).attempts)

    assert watchdog(queue, execute).tick().outcome == Completed(1)
    assert queue.read("child").state == "queued"


def test_settled_by_the_executor_itself(queue):
    """What the executor recorded stands; its return value comes too late."""
    queue.enqueue(job_id="a")

    def execute(job, _token):
        queue.outcome_unknown(job, "asked")
        return Completed("late")

    done = watchdog(queue, execute).tick()
    assert queue.read("a").outcome == OutcomeUnknown("asked")
    assert (done.kind, done.outcome) == ("settled", OutcomeUnknown("asked"))


def test_a_queue_that_is_closed_while_a_job_runs_records_nothing(store, queue):
    queue.enqueue(job_id="a")
    with pytest.raises(QueueClosed):
        watchdog(queue, lambda _job, _token: queue.close()).tick()
    reopened = store.connect()
    assert reopened.read("a").state == "running"
    store.advance(200)
    assert claim_one(reopened, "a").attempt == 2


def test_a_watchdog_is_a_context_manager_that_leaves_the_queue_open(queue):
    queue.enqueue(job_id="a")
    with watchdog(queue, executor_of(None)) as dog:
        assert dog.tick().kind == "settled"
    assert queue.has_pending_work() is False


def test_renewals_end_with_the_job(store, queue):
    queue.ingest_many(Job() for _ in range(5))
    held = []
    dog = watchdog(queue, lambda _job, _token: held.append(store.held(queue)))
    while dog.tick().kind != "idle":
        wait_until(lambda: store.held(queue) == 0, "the claim is let go of")
    assert held == [1] * 5


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lease", {"lease": 0.4}),
        ("lease", {"lease": True}),
        ("queues", {"queues": []}),
        ("queues", {"queues": [""]}),
        ("queues", {"queues": 5}),
        ("worker", {"worker": ""}),
        ("worker", {"worker": 5}),
    ],
    ids=repr,
)
def test_an_argument_that_is_not_allowed_is_named_and_nothing_is_claimed(queue, name, options):
    queue.enqueue(job_id="a")
    with pytest.raises(InvalidJob) as caught:
        watchdog(queue, executor_of(None), **options).tick()
    assert caught.value.field == name
    assert queue.read("a").attempts == 0
