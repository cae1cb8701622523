"""What the jobs of these tests do: their payloads say it, so that it is the same in threads, coroutines and processes.

An action is a generator that yields the seconds it wants to sleep. :func:`act` sleeps them, :func:`act_async` awaits
them; child processes import this file. What happened is noted in a file, since a child shares no memory with the test.
"""

import asyncio
import contextvars
import multiprocessing
import os
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import bandog
from bandog import Cancelled, Completed, Failed, Interrupted, OutcomeUnknown, Release, Snooze

STEP = 0.005
"""Seconds between two looks."""

LONGEST = 60.0
"""Seconds after which a job that waits gives up, so that a failing test leaves nothing behind."""

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


class OwnBase(BaseException):
    """Somebody's own."""


class NoTextError(Exception):
    """Raises when it is shown."""

    def __str__(self) -> str:
        raise SystemExit("no text")


def deep(depth: int = 0) -> int:
    """Recurse until the interpreter refuses."""
    return deep(depth + 1)


def raiser(error: Callable[[], BaseException]) -> Callable[[], Any]:
    def call() -> Any:
        raise error()

    return call


RAISES: dict[str, Callable[[], Any]] = {
    "SystemExit": raiser(lambda: SystemExit(0)),
    "KeyboardInterrupt": raiser(KeyboardInterrupt),
    "GeneratorExit": raiser(GeneratorExit),
    "CancelledError": raiser(lambda: asyncio.CancelledError("its own")),
    "OwnBase": raiser(lambda: OwnBase("own")),
    "StopIteration": raiser(lambda: StopIteration(7)),
    "StopAsyncIteration": raiser(StopAsyncIteration),
    "MemoryError": raiser(MemoryError),
    "RecursionError": deep,
    "ExceptionGroup": raiser(lambda: ExceptionGroup("group", [ValueError("one"), TypeError("two")])),
    "BaseExceptionGroup": raiser(lambda: BaseExceptionGroup("group", [OwnBase("own")])),
    "NoTextError": raiser(NoTextError),
    "ValueError": raiser(lambda: ValueError("lone \ud800 surrogate and NUL \0")),
    # The token was not aborted, so this is no obedience.
    "JobAborted": raiser(lambda: bandog.JobAborted("cancel_requested")),
}


class Unreadable:
    """No JSON, and no text either."""

    def __repr__(self) -> str:
        raise OwnBase("no repr")

    __str__ = __repr__


class RaisingResult(Completed):
    """An outcome whose result cannot be read."""

    def __init__(self) -> None:
        """It has nothing to set."""

    @property
    def result(self) -> Any:
        raise OwnBase("no result")


class RaisingReason(Failed):
    """An outcome whose reason cannot be read."""

    def __init__(self) -> None:
        """It has nothing to set."""

    @property
    def reason(self) -> Any:
        raise OwnBase("no reason")


class RaisingEvidence(OutcomeUnknown):
    """An outcome whose evidence cannot be read."""

    def __init__(self) -> None:
        """It has nothing to set."""

    @property
    def evidence(self) -> Any:
        raise OwnBase("no evidence")


class RaisingKind(Completed):
    """An outcome that does not even say which."""

    def __init__(self) -> None:
        """It has nothing to set."""

    @property
    def kind(self) -> Any:
        raise SystemExit("no kind")


class RaisingList(list[int]):
    """A list that cannot be walked."""

    def __iter__(self) -> Any:
        raise OwnBase("no items")


def endless() -> list[Any]:
    """A list that contains itself."""
    circle: list[Any] = []
    circle.append(circle)
    return circle


UNSTORABLE: dict[str, Callable[[], Any]] = {
    "nan": lambda: float("nan"),
    "infinity": lambda: {"deep": [float("inf")]},
    "surrogate": lambda: "\ud800",
    "bytes": lambda: b"bytes",
    "object": Unreadable,
    "set": lambda: {1, 2},
    "number-key": lambda: {1: "one"},
    "endless": endless,
    "huge-int": lambda: 10**5000,
    "too-long": lambda: "x" * (2 << 20),
    "lock": multiprocessing.Lock,
    "lambda": lambda: lambda: None,
}
"""Values that no store keeps, and most of which cannot be pickled either."""

RETURNS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "Completed": lambda: Completed({"sum": [1, 2.5, "é", None, True]}),
    "Failed": lambda: Failed("said so"),
    "Failed-final": lambda: Failed("said so", retry=False),
    "Failed-later": lambda: Failed("said so", retry_in=3600),
    "Failed-number": lambda: Failed(5),
    "Failed-unreadable": lambda: Failed(Unreadable()),
    "Cancelled": lambda: Cancelled("by itself"),
    "OutcomeUnknown": lambda: OutcomeUnknown({"seen": 1}),
    "Snooze": lambda: Snooze(3600),
    "Release": Release,
    # What is no outcome.
    "number": lambda: 7,
    "true": lambda: True,
    "dict": lambda: {"kind": "completed"},
    "class": lambda: Completed,
    "object": Unreadable,
    "Interrupted": lambda: Interrupted("by me"),
    "Snooze-negative": lambda: Snooze(-1),
    "Snooze-word": lambda: Snooze("soon"),
    "Failed-bad-retry": lambda: Failed(5, retry_in="soon"),
    "Failed-bad-backoff": lambda: Failed("why", backoff=5),
    # What raises when it is read.
    "RaisingResult": RaisingResult,
    "RaisingReason": RaisingReason,
    "RaisingEvidence": RaisingEvidence,
    "RaisingKind": RaisingKind,
    "RaisingList": lambda: Completed(RaisingList([1])),
    "RaisingList-evidence": lambda: OutcomeUnknown(RaisingList([1])),
    **{f"result-{name}": (lambda value=value: Completed(value())) for name, value in UNSTORABLE.items()},
    **{f"evidence-{name}": (lambda value=value: OutcomeUnknown(value())) for name, value in UNSTORABLE.items()},
}


def note(job: bandog.ClaimedJob, word: str) -> None:
    """Tell the test what happens. One write of a short line, which no other writer splits."""
    line = f"{job.job_id} {job.attempt} {word}\n".encode()
    handle = os.open(job.payload["notes"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


Action = Generator[float, None, Any]


def no_op(_job: bandog.ClaimedJob, _token: bandog.CancellationToken) -> Action:
    """Nothing."""
    return
    yield


def noted(job: bandog.ClaimedJob, _token: bandog.CancellationToken) -> Action:
    """Only a note."""
    note(job, "ran")
    return
    yield


def answers(job: bandog.ClaimedJob, _token: bandog.CancellationToken) -> Action:
    """What the payload names."""
    return RETURNS[job.payload["what"]]()
    yield


def holds(job: bandog.ClaimedJob, token: bandog.CancellationToken) -> Action:
    """Go on until the test lets go, or the token is aborted, unless the payload says to ignore that."""
    note(job, "started")
    gate = Path(job.payload["gate"])
    until = time.monotonic() + LONGEST
    was_aborted = False
    while not gate.exists() and time.monotonic() < until:
        if token.aborted and not was_aborted:
            was_aborted = True
            note(job, f"aborted:{token.reason}:{token.detail}")
        if not job.payload.get("ignores"):
            token.raise_if_aborted()
        yield STEP
    note(job, "ended")
    return Completed("held on")


def dies(job: bandog.ClaimedJob, _token: bandog.CancellationToken) -> Action:
    """The end of the process, as often as the payload says."""
    note(job, "started")
    if job.attempt <= job.payload.get("times", 1):
        os._exit(job.payload.get("code", 137))
    return Completed("lived")
    yield


def who(_job: bandog.ClaimedJob, _token: bandog.CancellationToken) -> Action:
    """The process that runs it."""
    return Completed(os.getpid())
    yield


def sleeps(job: bandog.ClaimedJob, _token: bandog.CancellationToken) -> Action:
    """For a time, deaf."""
    note(job, "started")
    yield job.payload["seconds"]
    note(job, "ended")


def leaks(job: bandog.ClaimedJob, _token: bandog.CancellationToken) -> Action:
    """What it finds in its context; then it sets something there."""
    found = tenant.get()
    tenant.set(f"of {job.job_id}")
    yield STEP
    return Completed([found, tenant.get()])


def echoes(job: bandog.ClaimedJob, _token: bandog.CancellationToken) -> Action:
    """All that it was given."""
    return Completed(
        [job.payload, job.queue, job.lane, job.priority, job.attempt, job.charged, job.last_error, job.timeout]
    )
    yield


ACTIONS = {action.__name__: action for action in (no_op, noted, answers, holds, dies, who, sleeps, leaks, echoes)}


def begin(job: bandog.ClaimedJob, token: bandog.CancellationToken) -> Action:
    """Start the action; or raise from here, since a generator cannot raise all there is."""
    what = job.payload["do"]
    if what == "raises":
        RAISES[job.payload["what"]]()
    return ACTIONS[what](job, token)


def act(job: bandog.ClaimedJob, token: bandog.CancellationToken) -> Any:
    """Do what the payload says."""
    steps = begin(job, token)
    while True:
        try:
            pause = next(steps)
        except StopIteration as done:
            return done.value
        time.sleep(pause)


async def act_async(job: bandog.ClaimedJob, token: bandog.CancellationToken) -> Any:
    """The same in a coroutine. One that ignores its token ignores ``CancelledError`` too, and notes it."""
    steps = begin(job, token)
    while True:
        try:
            pause = next(steps)
        except StopIteration as done:
            return done.value
        try:
            await asyncio.sleep(pause)
        except asyncio.CancelledError:
            note(job, "CancelledError")
            if not job.payload.get("ignores"):
                raise


async def act_in_task(job: bandog.ClaimedJob, token: bandog.CancellationToken) -> Any:
    """The same in a task that the executor makes."""
    return await asyncio.create_task(act_async(job, token))


def returns_coroutine(job: bandog.ClaimedJob, token: bandog.CancellationToken) -> Any:
    """A plain function that forgot to await."""
    return act_async(job, token)
