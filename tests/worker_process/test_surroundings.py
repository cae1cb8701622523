"""C49: a worker off the main thread, on a loop without signals, on a file of any name, and on one that is swapped."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import handlers
import pytest
from processes import PATIENCE, assert_sound, eventually, select

import bandog

if TYPE_CHECKING:
    from journal import Journal, Running
    from processes import Child

FAR = 30.0


@pytest.fixture(autouse=True)
def _journal(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANDOG_TEST_JOURNAL", str(journal.path))


def executor(how: str) -> Callable[..., Any]:
    return handlers.execute_async if how == "coroutines" else handlers.execute


@pytest.mark.parametrize("how", ["threads", "coroutines"])
@pytest.mark.parametrize("is_awaited", [False, True])
def test_off_the_main_thread_it_warns_once_and_can_be_stopped(
    tmp_path: Path, how: str, is_awaited: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "bandog")
    with bandog.connect(tmp_path / "jobs.sqlite") as queue:
        worker = bandog.Worker(queue, executor(how), grace=5)
        body = (lambda: asyncio.run(worker.run_async())) if is_awaited else worker.run
        thread = threading.Thread(target=body, daemon=True)
        thread.start()
        eventually(lambda: worker.running, "it runs")
        queue.enqueue({"do": "effect"}, job_id="a")
        eventually(lambda: queue.read("a").state == "settled", "it works")
        worker.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert not worker.running
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "outside the main thread" in warnings[0].getMessage()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_loop_without_signal_handlers(
    tmp_path: Path, run_worker: Callable[..., Running], journal: Journal, number: signal.Signals
) -> None:
    path = tmp_path / "jobs.sqlite"
    worker = run_worker(path, "coroutines", loop="WithoutSignals", grace=5)
    with bandog.connect(path) as queue:
        queue.enqueue({"do": "sleep", "seconds": 0.5}, job_id="a")
        journal.await_start("a")
        worker.tell(number)
        assert worker.end(within=5) == 0
        assert worker.child.rest() == ["stopped"]
        assert queue.read("a").outcome == bandog.Completed()
    assert "WARNING" not in worker.log


NAMES = {
    "spaces": "a file with spaces",
    "unicode": "Grüße, 仕事, 🐕",
    "signs": "100% #1 ?mode=ro&a=b",
    "quotes": 'it\'s "one" \\ `file`',
    "long": "/".join(["a" * 130] * 2),  # 512 bytes in all are the most that SQLite takes
}


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_any_name(tmp_path: Path, start: Callable[..., Child], name: str) -> None:
    """Beside opening it, changes by other processes are watched for under that name."""
    path = tmp_path / NAMES[name] / "jobs.sqlite"
    path.parent.mkdir(parents=True)
    assert name != "long" or len(str(path)) > 260
    producer = start("admitting_jobs.py", path)
    assert producer.hear() == "ready"
    with bandog.connect(path) as queue, bandog.Worker(queue, handlers.execute, poll=FAR, concurrency=2):
        for number in range(3):
            asked_at = time.monotonic()
            assert producer.ask(f"job-{number} 0") == "admitted"
            eventually(lambda number=number: queue.read(f"job-{number}").state == "settled", "it runs", FAR / 2)
            assert time.monotonic() - asked_at < FAR / 2
    assert_sound(path)


def fingerprints(folder: Path) -> dict[str, str]:
    """Every file of a folder, by content. (The shared-memory file is an index that readers may rebuild.)"""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.endswith("-shm"))
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.parametrize("how", ["threads", "coroutines", "processes"])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_is_swapped_is_noticed_and_left_alone(tmp_path: Path, how: str, is_replaced: bool) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path, other = folder / "jobs.sqlite", tmp_path / "other.sqlite"
    with bandog.connect(other) as queue:
        queue.enqueue({"do": "effect"}, job_id="of-the-other")
    options: dict[str, Any] = {"processes": 2} if how == "processes" else {"concurrency": 2}
    with bandog.connect(path) as queue:
        worker = bandog.Worker(queue, executor(how), grace=0.5, lease=1, poll=0.1, **options)
        assert not worker.running
        with worker:
            queue.enqueue({"do": "effect"}, job_id="early")
            eventually(lambda: queue.read("early").state == "settled", "it works")
            queue.enqueue({"do": "sleep", "seconds": 1}, job_id="running")
            eventually(lambda: handlers.started("running"), "it runs")
            if is_replaced:
                other.replace(path)
            else:
                path.unlink()
            before = fingerprints(folder)
            problem = str(eventually(lambda: worker.stats().problem, "it notices"))
            assert "deleted or replaced" in problem
            assert str(path) in problem
            # The report of the job that was running has nowhere to go.
            eventually(lambda: not worker.stats().running and worker.stats().unrecorded, "the job ends")
            assert worker.stats().state == "running"
            assert fingerprints(folder) == before
        assert (worker.running, worker.stats().state) == (False, "stopped")
        assert fingerprints(folder) == before
    assert path.exists() == is_replaced
    if is_replaced:
        assert select(path, "SELECT job_id FROM bandog_job") == [("of-the-other",)]
        assert select(path, "SELECT count(*) FROM bandog_outcome") == [(0,)]
        assert_sound(path)


def test_a_file_that_is_put_back_serves_again(tmp_path: Path) -> None:
    """Without a restart, and the report that had nowhere to go is recorded."""
    path, aside = tmp_path / "jobs.sqlite", tmp_path / "aside.sqlite"
    with bandog.connect(path) as queue:
        worker = bandog.Worker(queue, handlers.execute, poll=0.1, concurrency=2)
        with worker:
            queue.enqueue({"do": "sleep", "seconds": 0.5}, job_id="running")
            eventually(lambda: handlers.started("running"), "it runs")
            path.rename(aside)
            eventually(lambda: worker.stats().problem and worker.stats().unrecorded, "it notices")
            aside.rename(path)
            eventually(lambda: worker.stats().problem is None and not worker.stats().unrecorded, "it goes on")
            assert queue.read("running").outcome == bandog.Completed()
            queue.enqueue({"do": "effect"}, job_id="late")
            eventually(lambda: queue.read("late").state == "settled", "it works again")
    assert_sound(path)
