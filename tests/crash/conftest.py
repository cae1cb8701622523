"""Processes that are killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import Child, nursery


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Start a script of this folder; none outlives the test."""
    with nursery() as begin:
        yield lambda name, *arguments: begin(Path(__file__).with_name(name), *arguments)
