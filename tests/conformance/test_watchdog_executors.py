"""Watchdog: whatever an executor raises or returns, the job gets one outcome and the next one runs (C40, C31)."""

import asyncio

import pytest
from steps import executor_of, tick, watchdog

from bandog import (
    BandogError,
    Completed,
    Failed,
    Interrupted,
    Job,
    OutcomeUnknown,
    Snooze,
    Tick,
)


class OwnBase(BaseException):
    """Somebody's own."""


class NoTextError(Exception):
    """Raises when it is shown."""

    def __str__(self):
        raise RuntimeError("no text")


RAISED = [
    SystemExit(0),
    SystemExit("message"),
    GeneratorExit(),
    asyncio.CancelledError(),
    OwnBase("own"),
    StopIteration(7),
    StopAsyncIteration(),
    MemoryError(),
    RecursionError("deep"),
    ExceptionGroup("group", [ValueError("one"), TypeError("two")]),
    BaseExceptionGroup("base group", [OwnBase("own")]),
    ValueError(),
    ValueError("why"),
    KeyError("missing"),
    UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogate"),
    SyntaxError("bad", ("file", 1, 1, "text")),
    OSError(2, "gone"),
    NoTextError(),
    BandogError("ours"),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_whatever_is_raised_is_one_recorded_failure(store, queue, error):
    queue.ingest_many([Job(job_id="a"), Job(job_id="next")])
    dog = watchdog(queue, executor_of(error))
    done = dog.tick()
    assert (done.kind, done.job_id, done.outcome.kind) == ("settled", "a", "failed")
    outcome = queue.read("a").outcome
    assert isinstance(outcome, Failed)
    assert type(error).__name__ in outcome.reason
    assert store.held(queue) == 0
    assert (queue.read("a").attempts, queue.read("next").state) == (1, "queued")
    store.advance(1000)
    assert queue.recover() == ((), ())
    assert dog.tick().job_id == "next"


def test_a_keyboard_interrupt_is_recorded_and_then_raised(store, queue):
    queue.ingest_many([Job(job_id="a"), Job(job_id="next")])
    answers = iter([KeyboardInterrupt("ctrl-c"), None])

    def execute(job, token):
        return executor_of(next(answers))(job, token)

    dog = watchdog(queue, execute)
    with pytest.raises(KeyboardInterrupt, match="ctrl-c"):
        dog.tick()
    record = queue.read("a")
    assert (record.state, record.outcome.kind, record.attempts) == ("settled", "failed", 1)
    assert "KeyboardInterrupt" in record.outcome.reason
    assert store.held(queue) == 0
    store.advance(1000)
    # The runtime is not left busy.
    assert dog.tick() == Tick(kind="settled", job_id="next", outcome=Completed())


def test_a_failure_says_what_was_raised_and_where(queue):
    queue.enqueue(job_id="a")

    def execute(_job, _token):
        raise ValueError("the reason")

    watchdog(queue, execute).tick()
    reason = queue.read("a").outcome.reason
    assert "ValueError: the reason" in reason
    assert __file__ in reason
    assert "execute" in reason


def test_an_exception_is_retried_within_the_budget(store, queue):
    queue.enqueue(job_id="a", max_attempts=2)
    dog = watchdog(queue, executor_of(ValueError("why")))
    assert dog.tick() == Tick(kind="retried", job_id="a")
    assert "ValueError: why" in queue.read("a").error
    store.advance(61)
    assert dog.tick().kind == "settled"
    assert (queue.read("a").outcome.kind, queue.read("a").attempts) == ("failed", 2)


WRONG = [
    True,
    0,
    "completed",
    {"kind": "completed"},
    [],
    Completed,
    Failed,
    Snooze,
    object(),
    Interrupted("by me"),
    Tick(kind="settled"),
    Snooze(-1),
    Snooze(float("nan")),
    Snooze("soon"),
    Snooze(None),
    Failed("why", retry_in=-1),
    Failed("why", retry_in="soon"),
    Failed("why", backoff=5),
]


@pytest.mark.parametrize("answer", WRONG, ids=lambda answer: f"{answer!r:.40}")
def test_a_wrong_return_value_is_one_final_failure_that_says_so(store, queue, answer):
    queue.enqueue(job_id="a", max_attempts=5, max_recoveries=5)
    done = tick(queue, answer)
    assert (done.kind, done.outcome.kind) == ("settled", "failed")
    record = queue.read("a")
    assert (record.outcome.kind, record.attempts) == ("failed", 1)
    assert record.outcome.reason
    store.advance(1000)
    assert tick(queue, None).kind == "idle"
    assert queue.read("a").attempts == 1


@pytest.mark.sync_only("the asynchronous face asks for a coroutine function")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_coroutine_function_is_no_silent_success(queue):
    queue.enqueue(job_id="a")

    async def execute(job, token):
        pass

    done = watchdog(queue, execute).tick()
    assert (done.kind, queue.read("a").outcome.kind) == ("settled", "failed")


def test_an_executor_that_cannot_be_called_is_a_failure(queue):
    queue.enqueue(job_id="a")
    assert watchdog(queue, lambda: None).tick().outcome.kind == "failed"


class RaisesWhenRead(list):
    """A result that looks like JSON until it is read."""

    def __init__(self, error):
        super().__init__([1])
        self.error = error

    def __iter__(self):
        raise self.error


@pytest.mark.parametrize("outcome", [Completed, OutcomeUnknown])
@pytest.mark.parametrize(
    "error",
    [ValueError("broken"), SystemExit(3), MemoryError(), asyncio.CancelledError(), OwnBase("own")],
    ids=lambda error: type(error).__name__,
)
def test_a_result_that_raises_while_it_is_read_costs_no_outcome(store, queue, outcome, error):
    queue.ingest_many([Job(job_id="a", max_attempts=5, max_recoveries=5), Job(job_id="next")])
    done = tick(queue, outcome(RaisesWhenRead(error)))
    assert (done.kind, done.job_id) == ("settled", "a")
    record = queue.read("a")
    assert (record.state, record.attempts) == ("settled", 1)
    assert record.outcome.kind == ("failed" if outcome is Completed else "outcome_unknown")
    assert store.held(queue) == 0
    store.advance(1000)
    assert tick(queue, None).job_id == "next"
    assert queue.read("a").attempts == 1


@pytest.mark.parametrize("report", [Completed("done"), OutcomeUnknown("asked"), Failed("why"), Snooze(9)], ids=repr)
def test_an_interrupt_while_the_outcome_is_recorded_changes_no_outcome(queue, monkeypatch, report):
    """Ctrl-C comes after the executor has returned: its report stands, and the host is stopped all the same."""
    queue.enqueue(job_id="a", max_attempts=1)
    settle_many, interrupts = queue.operations.settle_many, [KeyboardInterrupt("ctrl-c")]

    def interrupted(reports):
        if interrupts:
            raise interrupts.pop()
        return settle_many(reports)

    monkeypatch.setattr(queue.operations, "settle_many", interrupted)
    with pytest.raises(KeyboardInterrupt, match="ctrl-c"):
        tick(queue, report)
    record = queue.read("a")
    if isinstance(report, Snooze):
        assert (record.state, record.given_back) == ("queued", 1)
    else:
        assert record.outcome == report
