"""The interpreter ends at once and in silence, whatever a worker in the background does, and with the right code.

`BANDOG_EXITS` is how often each state is left (1 by default); races with the end of the interpreter take more.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from processes import assert_sound, eventually

import bandog

if TYPE_CHECKING:
    from journal import Journal

TURNS = int(os.environ.get("BANDOG_EXITS", "1"))
PROMPT = 5.0
"""Seconds that an end may take on a busy machine, where it takes a tenth; the worker's grace is a minute."""

HOWS = ("threads", "coroutines", "processes")
STATES = ("idle", "busy", "running", "hung")
ENDS = {"return": 0, "exit": 3, "error": 1, "stopping": 0}


def leave(path: Path, journal: Journal, how: str, state: str, end: str) -> tuple[int, str]:
    """Exit code, and what was written to standard error."""
    command = [sys.executable, "-X", "dev", "-W", "error", str(Path(__file__).with_name("leaving.py"))]
    environment = {**os.environ, "BANDOG_TEST_JOURNAL": str(journal.path)}
    with subprocess.Popen(
        [*command, str(path), how, state, end],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        since = time.monotonic()
        try:
            # Until everybody has let go of its pipes, children of its own too.
            _, complaint = process.communicate(timeout=PROMPT)
        except subprocess.TimeoutExpired:
            process.kill()
            _, complaint = process.communicate()
            pytest.fail(f"{how}, {state}, {end}: it did not end within {PROMPT} s\n{complaint}")
        assert said == "ready\n", complaint
        print(f"{how}, {state}, {end}: {time.monotonic() - since:.3f} s")
        return process.returncode, complaint


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("state", STATES)
def test_the_end_is_prompt_and_silent(tmp_path: Path, journal: Journal, how: str, state: str) -> None:
    for turn in range(TURNS):
        for end, expected in ENDS.items():
            path = tmp_path / f"{end}-{turn}.sqlite"
            journal.path.write_text("")
            code, complaint = leave(path, journal, how, state, end)
            assert code == expected, complaint
            if end == "error":
                assert complaint.endswith("LookupError: nobody catches this\n")
                assert complaint.count("Traceback") == 1
            else:
                # A child that was killed for it may be told of.
                assert [line for line in complaint.splitlines() if "the process of job" not in line] == []
            assert_sound(path)


def test_what_ran_is_recovered_within_its_budget(tmp_path: Path, journal: Journal) -> None:
    paths = [tmp_path / f"{how}.sqlite" for how in HOWS]
    for how, path in zip(HOWS, paths, strict=True):
        journal.path.write_text("")
        assert leave(path, journal, how, "hung", "return")[0] == 0
    for path in paths:
        with bandog.connect(path) as queue:
            eventually(lambda queue=queue: queue.recover() and not running(queue), "the leases end")
            for number in range(2):
                record = queue.read(f"hung-{number}")
                assert (record.state, record.attempts, record.recoveries) == ("queued", 1, 1)


def running(queue: bandog.Queue) -> int:
    return queue.stats().queues["default"].running
