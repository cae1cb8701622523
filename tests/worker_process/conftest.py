"""Workers in processes of their own, with real signals, kills and time. The children are those of the crash tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Test folders are no packages, and this one may be collected without the other.
sys.path.insert(0, str(Path(__file__).parent.parent / "crash"))

from journal import Journal, Running
from processes import Child, nursery

HOWS = ("threads", "coroutines", "processes")


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Start a script of this folder; none outlives the test."""
    with nursery() as begin:
        yield lambda name, *arguments: begin(Path(__file__).with_name(name), *arguments)


@pytest.fixture
def run_worker(tmp_path: Path, start: Callable[..., Child], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Running]:
    """Start a worker on a file, as `run_worker(path, how, **options)`, and wait until it runs."""
    journal = Journal(tmp_path / "journal")
    monkeypatch.setenv("BANDOG_TEST_JOURNAL", str(journal.path))

    def run(path: Path, how: str, **options: Any) -> Running:
        return Running(start, path, how, options, journal)

    return run


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """What executors wrote down, whichever worker ran them."""
    return Journal(tmp_path / "journal")
