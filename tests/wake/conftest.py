"""The wake and the timers. What they are told and do is the same on every store; these run on a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Test folders are no packages, and this one may be collected without the other.
sys.path.insert(0, str(Path(__file__).parent.parent / "crash"))

from processes import Child, nursery

import bandog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.sqlite"


@pytest.fixture
def queue(path: Path) -> Iterator[bandog.Queue]:
    with bandog.connect(path) as queue:
        yield queue


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Start a script of this folder; none outlives the test."""
    with nursery() as begin:
        yield lambda name, *arguments: begin(Path(__file__).with_name(name), *arguments)
