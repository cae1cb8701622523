"""A fork in a process whose event loops are busy: its queue is refused in the child, and a fresh one works there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from processes import Child, assert_sound, select

CHILDREN = int(os.environ.get("BANDOG_FORKS", "200")) // 5


def test_a_child_is_refused_the_queue_and_may_open_its_own(path: Path, start: Callable[..., Child]) -> None:
    assert start("forking.py", path, CHILDREN).finish(patience=150) == ["done"]
    assert select(path, "SELECT count(*) FROM bandog_job WHERE job_id LIKE 'child-%'") == [(CHILDREN,)]
    assert_sound(path)
