"""Two SQLite libraries in one process, and forks. The children are those of the crash tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Test folders are no packages, and this one may be collected without the other.
sys.path.insert(0, str(Path(__file__).parent.parent / "crash"))

from processes import Child, nursery


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Start a script of this folder; none outlives the test."""
    with nursery() as begin:
        yield lambda name, *arguments: begin(Path(__file__).with_name(name), *arguments)


@pytest.fixture
def read_only() -> Iterator[Callable[[Path], None]]:
    """Make a file or a folder read-only by a mount, since permissions do not hold root back.

    It takes root, as the containers of the test runs have it, or a sudo that asks no questions. Without either the test
    fails: to skip it would only hide the gap.
    """
    privilege = [] if os.geteuid() == 0 else ["sudo", "-n"]
    mounted: list[Path] = []

    def run(*command: str) -> None:
        done = subprocess.run([*privilege, *command], capture_output=True, text=True, check=False, timeout=30)
        if done.returncode:
            pytest.fail(f"cannot mount; run this as root. {' '.join(command)}: {done.stderr}")

    def protect(path: Path) -> None:
        run("mount", "--bind", str(path), str(path))
        mounted.append(path)
        run("mount", "-o", "remount,ro,bind", str(path))

    try:
        yield protect
    finally:
        for path in mounted:
            # Lazily, because the library keeps a descriptor of every database that it has opened.
            subprocess.run([*privilege, "umount", "--lazy", str(path)], check=True, timeout=30)
