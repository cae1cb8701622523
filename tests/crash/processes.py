"""Real processes for tests: started with a deadline on everything, talked to in lines, killed without mercy.

A child is a script that reads commands from its standard input and answers with lines on its standard output. Used by
the tests of crashes, of sharing and of concurrency.
"""

from __future__ import annotations

import queue
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

PATIENCE = 60.0
"""Seconds after which anything that was waited for counts as hung. Far above what it takes on a busy machine."""


class Child:
    """One script in a process of its own."""

    def __init__(self, script: Path, *arguments: object) -> None:
        command = [sys.executable, "-X", "faulthandler", str(script), *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
        )
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.complaint = ""
        # Threads, because a full pipe would stop the child at a place that the test did not choose.
        self._readers = [threading.Thread(target=body, daemon=True) for body in (self._read_lines, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read_lines(self) -> None:
        for line in self.process.stdout or ():
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def _read_errors(self) -> None:
        self.complaint = self.process.stderr.read() if self.process.stderr else ""

    def say(self, line: str) -> None:
        """Send one line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self, patience: float = PATIENCE) -> str:
        """The next line; the test fails where none comes."""
        try:
            line = self.lines.get(timeout=patience)
        except queue.Empty:
            self.kill()
            message = f"{self.process.args} said nothing for {patience} s:\n{self.complaint}"
            raise AssertionError(message) from None
        if line is None:
            code = self.process.wait(PATIENCE)
            self.join()
            message = f"{self.process.args} ended with {code} instead of answering:\n{self.complaint}"
            raise AssertionError(message)
        return line

    def ask(self, line: str, patience: float = PATIENCE) -> str:
        """Send one line and hear the answer."""
        self.say(line)
        return self.hear(patience)

    def rest(self) -> list[str]:
        """What was said and not heard yet. Only after the child has ended."""
        self.join()
        heard = []
        while (line := self.lines.get()) is not None:
            heard.append(line)
        return heard

    def join(self) -> None:
        """Wait until everything it wrote has been read."""
        for reader in self._readers:
            reader.join(PATIENCE)
            assert not reader.is_alive(), "somebody else still holds the pipes of a child that has ended"

    def finish(self, patience: float = PATIENCE) -> list[str]:
        """Close its input and wait for its end, which must be a good one. Returns what it said last."""
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            # Its stack is worth more than its death: faulthandler prints it for this signal.
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(PATIENCE)
            self.join()
            message = f"{self.process.args} did not end within {patience} s:\n{self.complaint}"
            raise AssertionError(message) from None
        said = self.rest()
        assert code == 0, f"{self.process.args} ended with {code}:\n{self.complaint}"
        return said

    def kill(self) -> None:
        """SIGKILL, and reap. Harmless where it has ended."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self.join()
        if self.process.stdin:
            # What was still to be written to it is of no interest.
            with suppress(BrokenPipeError):
                self.process.stdin.close()
        for stream in (self.process.stdout, self.process.stderr):
            if stream:
                stream.close()


@contextmanager
def nursery() -> Iterator[Callable[..., Child]]:
    """Starts children, and leaves none behind."""
    children: list[Child] = []

    def start(script: Path, *arguments: object) -> Child:
        child = Child(script, *arguments)
        children.append(child)
        return child

    try:
        yield start
    finally:
        for child in children:
            child.kill()


def eventually(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> object:
    """Wait until `condition` returns something true, and return it."""
    deadline = time.monotonic() + patience
    while True:
        if answer := condition():
            return answer
        assert time.monotonic() < deadline, f"waited {patience} s in vain: {what}"
        time.sleep(0.005)


Look = Callable[..., list[tuple]]


@contextmanager
def looking_at_file(path: Path) -> Iterator[Look]:
    """A connection of the interpreter's own SQLite, as a function that runs SQL."""
    with closing(sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)) as connection:
        yield lambda statement, *parameters: connection.execute(statement, parameters).fetchall()


def select(path: Path, statement: str, *parameters: object) -> list[tuple]:
    """Ask the file itself, through the interpreter's own SQLite."""
    with looking_at_file(path) as look:
        return look(statement, *parameters)


def assert_sound(path: Path) -> None:
    """The file is well-formed, and every job is in exactly one state."""
    with looking_at_file(path) as look:
        assert look("PRAGMA integrity_check") == [("ok",)]
        assert_each_in_one_state(look)


def assert_each_in_one_state(look: Look) -> None:
    """Every job is, and every state is a job's; on a server too, where the tables have other names."""
    states = """
        SELECT job.job_id, count(*) FROM bandog_job AS job LEFT JOIN (
            SELECT number FROM bandog_ready UNION ALL SELECT number FROM bandog_lease
            UNION ALL SELECT number FROM bandog_outcome
        ) AS state ON state.number = job.number
        GROUP BY job.number, job.job_id HAVING count(state.number) <> 1
    """
    assert look(states) == [], "jobs in no state, or in several"
    strays = """
        SELECT number FROM (SELECT number FROM bandog_ready UNION ALL SELECT number FROM bandog_lease
        UNION ALL SELECT number FROM bandog_outcome) AS state WHERE number NOT IN (SELECT number FROM bandog_job)
    """
    assert look(strays) == [], "states without a job"
