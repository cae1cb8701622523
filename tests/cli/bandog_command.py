"""The command ``bandog`` as a user runs it: in a process of its own, on pipes or on a terminal.

A test module that imports this is skipped, with the reason, where the extra ``cli`` or pseudo-terminals are missing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pty = pytest.importorskip("pty", reason="pseudo-terminals are a matter of POSIX")
for name in ("click", "rich"):
    pytest.importorskip(name, reason="the extra cli is not installed")

ESCAPE = "\x1b"

DECIDED_HERE = {
    "NO_COLOR",
    "FORCE_COLOR",
    "COLUMNS",
    "LINES",
    "TERM",
    "TTY_COMPATIBLE",
    "TTY_INTERACTIVE",
    "BANDOG_URL",
    "BANDOG_TRACEBACK",
}


def environment(**changes: str) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if name not in DECIDED_HERE}, **changes}


def arguments_of(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "bandog", *arguments]


def command(folder: Path, *arguments: str, stdin: str = "", **changes: str) -> subprocess.CompletedProcess[str]:
    """Run it on pipes."""
    return subprocess.run(
        arguments_of(*arguments),
        cwd=folder,
        env=environment(**changes),
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )


def on_jobs(folder: Path, *arguments: str, stdin: str = "", **changes: str) -> subprocess.CompletedProcess[str]:
    """Run it on ``jobs.sqlite``."""
    return command(folder, *arguments, stdin=stdin, BANDOG_URL="jobs.sqlite", **changes)


def done(folder: Path, *arguments: str, stdin: str = "") -> str:
    """What it answers where all is well: without a complaint."""
    ended = on_jobs(folder, *arguments, stdin=stdin)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def document(folder: Path, *arguments: str) -> Any:
    """What it answers as JSON: one document, on one line of ASCII."""
    answer = done(folder, *arguments, "--json")
    assert answer.endswith("\n")
    assert answer.count("\n") == 1
    assert answer.isascii()
    return json.loads(answer)


def one_line(ended: subprocess.CompletedProcess[str], code: int) -> str:
    """The error of a call that failed: one line, and no answer."""
    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr.startswith("bandog: ")
    assert ended.stderr.endswith("\n")
    assert ended.stderr.count("\n") == 1
    assert "Traceback" not in ended.stderr
    return ended.stderr


def usage_of(ended: subprocess.CompletedProcess[str], verb: str) -> str:
    """What wrong arguments print: the usage of the verb, then one line."""
    assert (ended.returncode, ended.stdout) == (2, "")
    usage, line = ended.stderr.splitlines()[0], ended.stderr.splitlines()[-1]
    assert usage.startswith(f"Usage: bandog {verb} ".rstrip() + " ")
    assert line.startswith("bandog: ")
    assert line.endswith(f"(more: bandog {verb}".rstrip() + " --help)")
    assert "Traceback" not in ended.stderr
    return line


def on_a_terminal(
    folder: Path, *arguments: str, seconds: float = 100.0, interrupt_at: str | None = None, **changes: str
) -> tuple[int, str]:
    """Run it on a terminal; type Ctrl-C once it has shown ``interrupt_at``."""
    terminal, its_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "bandog", *arguments],
        cwd=folder,
        env=environment(**{"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", **changes}),
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
        start_new_session=True,
        preexec_fn=_control_terminal,  # noqa: PLW1509 - one thread; so that Ctrl-C arrives as on a real one
    )
    os.close(its_end)
    shown = b""
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            try:
                part = os.read(terminal, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
            if interrupt_at is not None and interrupt_at in shown.decode(errors="replace"):
                os.write(terminal, b"\x03")
                interrupt_at = None
        return process.wait(timeout=30), shown.decode()
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def _control_terminal() -> None:
    import fcntl  # noqa: PLC0415 - POSIX alone
    import termios  # noqa: PLC0415

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
