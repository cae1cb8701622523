"""The interpreter ends at once and in silence, whatever a program left open or under way."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import assert_sound

SCRIPT = Path(__file__).with_name("exiting.py")
TURNS = int(os.environ.get("BANDOG_EXITS", "2"))
"""How often each state is left; races with the end of the interpreter take more."""

STATES = [
    "left_open",
    "left_open_in_a_global",
    "under_way",
    "under_way_and_never_answered",
    "loop_closed",
    "daemon_loop",
    "daemon_threads",
    "at_exit",
    "at_exit_sync",
    "thread_that_ends_later",
    "waking",
    "ticking",
    "timer",
    "async_timer",
]
RACES = {"daemon_loop", "daemon_threads", "waking", "timer"}


def leave(path: Path, state: str) -> tuple[int, str, float]:
    """Exit code, standard error, and seconds from `ready` to the end."""
    command = [sys.executable, "-X", "dev", "-W", "error", str(SCRIPT), str(path), state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = process.stdout.readline()
            since = time.monotonic()
            _, complaint = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            _, complaint = process.communicate()
            pytest.fail(f"{state}: the interpreter did not end within 30 s\n{complaint}")
        assert said == "ready\n", complaint
        return process.returncode, complaint, time.monotonic() - since


@pytest.mark.parametrize("state", STATES)
def test_the_interpreter_ends_in_silence(tmp_path: Path, state: str) -> None:
    for turn in range(TURNS * 3 if state in RACES else TURNS):
        path = tmp_path / f"{turn}.sqlite"
        code, complaint, seconds = leave(path, state)
        assert (code, complaint) == (0, ""), turn
        assert seconds < 5
        assert_sound(path)


def test_an_exit_code_is_the_program_s_own(tmp_path: Path) -> None:
    assert leave(tmp_path / "jobs.sqlite", "exits_with_three")[:2] == (3, "")


def test_an_exception_of_the_program_is_the_only_thing_shown(tmp_path: Path) -> None:
    code, complaint, _ = leave(tmp_path / "jobs.sqlite", "raises")
    assert code == 1
    assert complaint.count("Traceback") == 1
    assert complaint.rstrip().endswith("LookupError")
