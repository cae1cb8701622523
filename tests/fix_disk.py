"""A disk that is soon full."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of 4 MiB.

    Mounting takes root, as the containers of the test runs have it, or a sudo that asks no questions. Without either
    the test fails: to skip it would only hide the gap.
    """
    folder = tmp_path / "small"
    folder.mkdir()
    privilege = [] if os.geteuid() == 0 else ["sudo", "-n"]
    options = f"size=4m,mode=0700,uid={os.geteuid()},gid={os.getegid()}"
    mount = [*privilege, "mount", "-t", "tmpfs", "-o", options, "bandog-small-disk", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        pytest.fail(f"cannot mount a small file system; run this as root. {' '.join(mount)}: {done.stderr}")
    try:
        yield folder
    finally:
        # Lazily, because the library keeps a descriptor of every database that it has opened; it goes with the process.
        subprocess.run([*privilege, "umount", "--lazy", str(folder)], check=True, timeout=30)
