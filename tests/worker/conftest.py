"""The ways to run a worker: each test here runs on all of them, or says on which.

``threads`` and ``processes`` run plain functions, ``coroutines`` coroutine functions on a loop of the worker's own, and
``async`` the same on the loop of an ``AsyncQueue``, by ``run_async``.
"""

import asyncio
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import executors
import pytest
from face import BlockingQueue, LoopThread
from steps import wait_until

import bandog
from bandog import Job

KINDS = ("threads", "coroutines", "async", "processes")

PATIENCE = 30.0
"""Seconds after which what was waited for counts as lost."""


class Bench:
    """One file, a queue on it, and the workers of a test, stopped at its end."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.path = folder / "jobs.sqlite"
        self.notes = folder / "notes"
        self.thread = LoopThread() if kind == "async" else None
        self.queue: Any = None
        self.workers: list[bandog.Worker] = []
        self.runs: list[Future[None]] = []

    def open(self, **options: Any) -> Any:
        """The queue that the workers use. One of the asynchronous face is behind a blocking one."""
        if self.thread is None:
            self.queue = bandog.connect(self.path, **options)
        else:
            opened = self.thread.call(bandog.connect_async, self.path, **options)
            self.queue = BlockingQueue(self.thread, opened)
        return self.queue

    @property
    def is_async(self) -> bool:
        return self.kind in {"coroutines", "async"}

    def worker(self, execute: Callable[..., Any] | None = None, *, at_once: int = 1, **options: Any) -> bandog.Worker:
        """A worker of this kind, not started."""
        if execute is None:
            execute = executors.act_async if self.is_async else executors.act
        queue = self.queue.asynchronous if self.thread else self.queue
        number = {"processes" if self.kind == "processes" else "concurrency": at_once}
        options = {"lease": 30.0, "grace": PATIENCE, "worker": "bench", **number, **options}
        return bandog.Worker(queue, execute, **options)

    def begin(self, worker: bandog.Worker) -> bandog.Worker:
        """Start it; it is stopped at the end of the test."""
        self.workers.append(worker)
        if self.thread is None:
            worker.start()
            return worker
        run = asyncio.run_coroutine_threadsafe(worker.run_async(), self.thread.loop)
        self.runs.append(run)
        wait_until(lambda: worker.running or run.done(), "the worker runs")
        if run.done():
            run.result()
        return worker

    def start(self, execute: Callable[..., Any] | None = None, **options: Any) -> bandog.Worker:
        """Make a worker and start it."""
        return self.begin(self.worker(execute, **options))

    def burst(self, execute: Callable[..., Any] | None = None, **options: Any) -> bandog.Worker:
        """Run a worker until nothing is due any more."""
        worker = self.worker(execute, **options)
        if self.thread is None:
            worker.run(burst=True)
        else:
            self.thread.call(worker.run_async, burst=True)
        assert not worker.running
        return worker

    def job(self, do: str, job_id: str | None = None, *, budget: dict[str, Any] | None = None, **payload: Any) -> Job:
        """A job that does something of :mod:`executors`."""
        payload = {"do": do, "notes": str(self.notes), "gate": str(self.folder / f"gate-{job_id}"), **payload}
        return Job(payload=payload, job_id=job_id, **(budget or {}))

    def ingest(self, do: str, job_id: str, *, budget: dict[str, Any] | None = None, **payload: Any) -> None:
        self.queue.ingest(self.job(do, job_id, budget=budget, **payload))

    def let_go(self, job_id: str) -> None:
        """A job that holds on may end."""
        (self.folder / f"gate-{job_id}").touch()

    def noted(self, job_id: str | None = None) -> list[str]:
        """What jobs have noted, in order: of one job, its words; of all, whole lines."""
        if not self.notes.exists():
            return []
        lines = [line.split(" ", 2) for line in self.notes.read_text().splitlines()]
        return [words[2] if job_id else " ".join(words) for words in lines if job_id in (None, words[0])]

    def await_note(self, job_id: str, word: str) -> None:
        wait_until(lambda: word in self.noted(job_id), f"{job_id} notes {word!r}")

    def settled(self, job_id: str) -> bandog.JobRecord:
        """The record of a job, once it has its outcome."""
        return self.reaches(job_id, lambda record: record.state == "settled")

    def reaches(self, job_id: str, condition: Callable[[bandog.JobRecord], object]) -> bandog.JobRecord:
        """The record of a job, once it is as the condition wants it."""
        until = time.monotonic() + PATIENCE
        while not condition(record := self.queue.read(job_id)):
            assert time.monotonic() < until, f"{record}: not what was waited for within {PATIENCE} s"
            time.sleep(0.004)
        return record

    def await_counts(self, worker: bandog.Worker, **counts: int) -> None:
        """A worker counts a moment after the record."""
        until = time.monotonic() + PATIENCE
        while {name: getattr(worker.stats(), name) for name in counts} != counts:
            assert time.monotonic() < until, f"{worker.stats()}: not {counts} within {PATIENCE} s"
            time.sleep(0.002)

    def stop(self, worker: bandog.Worker, grace: float | None = None) -> None:
        worker.stop(grace)
        wait_until(lambda: worker.stats().state == "stopped", "the worker has stopped")

    def await_nothing_held(self) -> None:
        """No claim is renewed any more."""
        wait_until(lambda: self.queue.engine.held() == 0, "renewals end")

    def close(self) -> None:
        for worker in self.workers:
            worker.stop(0.0)
        for run in self.runs:
            with suppress(asyncio.CancelledError):
                run.result(PATIENCE)
        if self.queue is not None:
            self.queue.close()
        if self.thread is not None:
            self.thread.stop()
        wait_until(lambda: not own_threads(), f"threads of the worker end: {own_threads()}")


def own_threads() -> list[str]:
    """Threads of workers that are still there."""
    names = ("bandog-worker", "bandog-child")
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(names)]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "kinds(*kinds): run on these kinds of executors only, for the reason given there"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "bench" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("kinds")
        metafunc.parametrize("bench", marker.args if marker else KINDS, indirect=True)


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    # Child processes would import the main module again, which is the test runner.
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    bench = Bench(request.param, tmp_path)
    bench.open()
    try:
        yield bench
    finally:
        for name in {line.split(" ")[0] for line in bench.noted()}:
            bench.let_go(name)
        bench.close()
        shutil.rmtree(tmp_path, ignore_errors=True)
