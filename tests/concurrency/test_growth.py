"""A long life leaves nothing behind: no descriptors, no threads, no memory, no frames of exceptions."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bandog

if TYPE_CHECKING:
    from fix_target import Target

MEBIBYTE = 1 << 20
TIMES = {"sqlite": 100, "postgres": 10}
"""How often queues are opened: on a server, each is a handful of sessions."""


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - their number is all that is wanted


def threads() -> int:
    """Native ones too."""
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208


def assert_no_growth(body: Callable[[], None], measure: Callable[[], int], allowed: int) -> None:
    """The first turn is for what is kept on purpose."""
    body()
    gc.collect()
    before = measure()
    body()
    gc.collect()
    grown = measure() - before
    print(measure.__name__, before, grown)
    assert grown <= allowed


@pytest.mark.parametrize("measure", [descriptors, threads])
def test_opening_and_closing_leaves_nothing(target: Target, measure: Callable[[], int]) -> None:

    def cycle() -> None:
        for _ in range(TIMES[target.kind]):
            with target.connect() as queue, target.connect() as other:
                queue.enqueue()
                queue.has_pending_work()
                other.claim()
                bandog.Watchdog(other, lambda _job, _cancel: None).tick()

    assert_no_growth(cycle, measure, 0)


@pytest.mark.parametrize("measure", [descriptors, threads])
def test_a_queue_that_is_dropped_leaves_nothing(target: Target, measure: Callable[[], int]) -> None:

    def cycle() -> None:
        for _ in range(TIMES[target.kind]):
            queue = target.connect()
            queue.enqueue()
            bandog.Watchdog(queue, lambda _job, _cancel: None).tick()
            queue.read(queue.enqueue().job_id)
            del queue

    assert_no_growth(cycle, measure, 0)


def test_files_that_are_deleted_leave_no_descriptors(tmp_path: Path) -> None:
    def cycle() -> None:
        for number in range(50):
            path = tmp_path / f"jobs-{number}.sqlite"
            with bandog.connect(path) as queue:
                queue.enqueue()
                queue.has_pending_work()
            path.unlink()

    # The last file's may still be parked: they are closed when another file is.
    assert_no_growth(cycle, descriptors, 4)


def test_many_jobs_leave_no_memory(target: Target) -> None:
    with bandog.connect(target.relaxed) as queue:

        def cycle() -> None:
            for _ in range(5):
                queue.ingest_many([bandog.Job(payload={"number": number}) for number in range(2_000)])
                while claims := queue.claim(limit=500):
                    queue.settle_many([(claim, bandog.Completed({"ok": True})) for claim in claims])

        assert_no_growth(cycle, resident, 10 * MEBIBYTE)
        assert_no_growth(cycle, threads, 0)


class Large:
    """A local variable of an executor that fails."""

    def __init__(self) -> None:
        self.content = bytearray(256 * 1024)


def test_failing_jobs_leave_no_frames(target: Target) -> None:
    alive: weakref.WeakSet[Large] = weakref.WeakSet()

    def execute(_job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
        large = Large()
        alive.add(large)
        message = f"failed with {len(large.content)} bytes at hand"
        raise ValueError(message)

    with bandog.connect(target.relaxed) as queue:
        watchdog = bandog.Watchdog(queue, execute)

        def cycle() -> None:
            queue.ingest_many([bandog.Job() for _ in range(300)])
            while watchdog.tick().kind == "settled":
                pass

        gc.disable()
        try:
            assert_no_growth(cycle, resident, 10 * MEBIBYTE)
        finally:
            gc.enable()
        # Not even until the next collection of garbage: large locals would pile up.
        assert len(alive) <= 1
        assert queue.engine.held() == 0


def test_calls_that_are_refused_leave_nothing(target: Target) -> None:
    with bandog.connect(target.relaxed) as queue:

        def cycle() -> None:
            for _ in range(5 * TIMES[target.kind]):
                with pytest.raises(bandog.StaleClaim):
                    queue.acknowledge((queue.enqueue().job_id, "no such token"))
                with pytest.raises(bandog.JobNotFound):
                    queue.read("no such job")
                with pytest.raises(bandog.PayloadError):
                    queue.enqueue({"x": float("nan")})

        assert_no_growth(cycle, resident, 10 * MEBIBYTE)
        assert_no_growth(cycle, descriptors, 0)
    assert threading.active_count() < 20
