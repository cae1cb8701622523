"""A child that outlives its parent, which had a queue open."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def orphan(url: str) -> Generator[int]:
    """The number of a process whose parent was killed with a queue open."""
    program = Path(__file__).with_name("orphan.py")
    with subprocess.Popen([sys.executable, program, url], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
