"""Forks while a queue is open: the child can do the parent no harm, and neither of them hangs."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from processes import Child, assert_sound, eventually, select

import bandog

FORKS = int(os.environ.get("BANDOG_FORKS", "200"))


def gone(process: int) -> bool:
    """Ended, whether or not whoever inherited it has reaped it."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


@pytest.mark.parametrize("place", ["main", "thread", "busy"])
def test_forks_leave_the_parent_alone(tmp_path: Path, start: Callable[..., Child], place: str) -> None:
    path = tmp_path / "jobs.sqlite"
    forker = start("forker.py", path, FORKS if place == "main" else FORKS // 2, place)
    assert forker.hear() == "forking"
    # This process would find the kept claim expired if it were once not renewed in time.
    lost: list[str] = []
    with bandog.connect(path, busy_timeout=30) as queue:

        def over() -> bool:
            recovered, interrupted = queue.recover()
            lost.extend([*recovered, *interrupted])
            return not forker.lines.empty()

        eventually(over, "all forks are through", patience=120)
    facts = json.loads(forker.hear())
    forker.finish()
    assert set(facts["codes"]) == {0}, forker.complaint
    assert (facts["starts"], facts["aborted"], facts["tick"]) == (1, None, "settled")
    assert lost == []
    stored = {job for (job,) in select(path, "SELECT job_id FROM bandog_job")}
    assert stored == set(facts["acknowledged"])
    assert_sound(path)


@pytest.mark.parametrize("how", ["exit", "close", "drop", "fresh", "processes"])
def test_children_may_leave_in_every_way(tmp_path: Path, start: Callable[..., Child], how: str) -> None:
    path = tmp_path / "jobs.sqlite"
    leaver = start("leaver.py", path, how)
    assert leaver.finish() == ["done"]
    expected = {"exit": 11, "close": 11, "drop": 11, "fresh": 21, "processes": 22}
    assert select(path, "SELECT count(*) FROM bandog_job") == [(expected[how],)]
    assert_sound(path)


def test_a_fork_does_not_wait_for_a_lock(tmp_path: Path, start: Callable[..., Child]) -> None:
    path = tmp_path / "jobs.sqlite"
    assert start("blocked_forker.py", path).finish() == ["done"]
    assert select(path, "SELECT count(*) FROM bandog_job") == [(5,)]
    assert_sound(path)


def test_a_child_that_outlives_its_parent_keeps_no_lock(tmp_path: Path, start: Callable[..., Child]) -> None:
    path = tmp_path / "jobs.sqlite"
    chance = random.Random(1)
    orphans: list[int] = []
    try:
        for number in range(10):
            parent = start("orphan.py", path)
            orphans.append(int(parent.hear()))
            # In the middle of its transactions.
            time.sleep(chance.random() * 0.05)
            parent.kill()
            assert not gone(orphans[-1])
            with bandog.connect(path, busy_timeout=20) as queue:
                queue.enqueue(job_id=f"after-{number}")
                (claim,) = queue.claim()
                queue.acknowledge(claim)
            with closing(sqlite3.connect(path, timeout=20, isolation_level=None)) as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS application (number INTEGER)")
                connection.execute("INSERT INTO application VALUES (?)", (number,))
                # Every lock, the exclusive one of a checkpoint that waits for all readers included.
                assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
            batches = "SELECT count(*) % 300 FROM bandog_job WHERE job_id NOT LIKE 'after-%'"
            assert select(path, batches) == [(0,)], "half a batch"
            assert_sound(path)
        assert not any(gone(orphan) for orphan in orphans), "a child had died, so that this shows little"
        assert select(path, "SELECT count(*) FROM application") == [(10,)]
    finally:
        for orphan in orphans:
            with suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)
    eventually(lambda: all(gone(orphan) for orphan in orphans), "the orphans are gone")
