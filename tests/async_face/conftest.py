"""What is so on the asynchronous face alone. What both faces promise is in the conformance suite."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

# Test folders are no packages, and this one may be collected without the other.
sys.path.insert(0, str(Path(__file__).parent.parent / "crash"))

from processes import Child, nursery


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.sqlite"


@pytest.fixture
def locked(path: Path) -> Callable[[], AbstractContextManager[None]]:
    """Hold the write lock as another connection does."""

    @contextmanager
    def lock() -> Iterator[None]:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as blocker:
            blocker.execute("BEGIN IMMEDIATE")
            try:
                yield
            finally:
                blocker.execute("ROLLBACK")

    return lock


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Start a script of this folder; none outlives the test."""
    with nursery() as begin:
        yield lambda name, *arguments: begin(Path(__file__).with_name(name), *arguments)
