"""What the benches of the worker share: a fresh process for each measured side, medians, and what machine it was."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bandog

if TYPE_CHECKING:
    from collections.abc import Sequence

PAYLOAD = {"to": "ada@example.org", "n": 1}
PAYLOAD_TEXT = json.dumps(PAYLOAD)


def describe(folder: str | None) -> str:
    """The machine, the disk's sync, the versions and the load, on three lines."""
    cores = os.cpu_count()
    return (
        f"{_processor()}, {cores} cores, {platform.system()} {platform.release()}, "
        f"a sync of 4 KiB in {folder or tempfile.gettempdir()} takes {_sync(folder):.3f} ms\n"
        f"CPython {platform.python_version()}, bandog {bandog.__version__} with SQLite "
        f"{bandog._core.sqlite_version()}, sqlite3 with {sqlite3.sqlite_version}\n"  # noqa: SLF001
        f"load {os.getloadavg()[0]:.1f}: figures of a loaded machine are not worth quoting"
    )


def warn_of_debug_build() -> None:
    if bandog._core.DEBUG_BUILD:  # noqa: SLF001
        print("this is a debug build; its figures mean nothing", file=sys.stderr)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def _sync(folder: str | None) -> float:
    """Milliseconds of a write of 4 KiB and its sync, the median of 50."""
    times: list[float] = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(50):
            start = time.perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def in_a_fresh_process(script: str, *arguments: object) -> Any:
    """Run a bench's script again, for one side; the last line that it prints is JSON."""
    done = subprocess.run(  # noqa: S603 - this interpreter, with our own script
        [sys.executable, script, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True, timeout=600
    )
    return json.loads(done.stdout.splitlines()[-1])


def percentile(values: Sequence[float], percent: int) -> float:
    """The value below which so many percent lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
