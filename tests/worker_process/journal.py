"""What executors of worker processes write down, and what a test sees of such a process."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from processes import PATIENCE, Child, eventually


class Journal:
    """Lines that outlive whoever wrote them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def notes(self, what: str, job_id: str | None = None) -> list[dict[str, Any]]:
        """Notes of one kind, in the order in which they were made."""
        # A line that is being written has no end yet.
        lines = self.path.read_bytes().splitlines(keepends=True)
        notes = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [note for note in notes if note["what"] == what and job_id in (None, note["job"])]

    def attempts(self, job_id: str) -> list[int]:
        """Which attempts of a job were started."""
        return [note["attempt"] for note in self.notes("start", job_id)]

    def await_start(self, *job_ids: str) -> None:
        """Wait until each of these jobs was started at least once."""
        eventually(lambda: all(self.attempts(job_id) for job_id in job_ids), f"{job_ids} start")


class Running:
    """A worker in a process of its own, that has started to claim."""

    def __init__(
        self, start: Callable[..., Child], path: Path, how: str, options: dict[str, Any], journal: Journal
    ) -> None:
        self.child = start("at_work.py", path, how, json.dumps(options))
        self.journal = journal
        self.born_at = time.monotonic()
        self.told_at = 0.0
        self.log = ""
        if options.get("wait", True):
            assert self.child.hear() == "running"

    @property
    def pid(self) -> int:
        return self.child.process.pid

    def tell(self, number: signal.Signals) -> None:
        """Send a signal; the time of the end is counted from here."""
        self.told_at = time.monotonic()
        self.child.process.send_signal(number)

    def end(self, within: float = PATIENCE) -> int:
        """Its exit code. It must end within so many seconds from the last signal, and everything it started too."""
        if not self.told_at:
            self.told_at = time.monotonic()
        try:
            code = self.child.process.wait(max(0.0, self.told_at + within - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.child.process.send_signal(signal.SIGABRT)  # its stack is worth more than its death
            self.child.process.wait(PATIENCE)
            self.child.join()
            message = f"it did not end within {within} s of the signal:\n{self.child.complaint}"
            raise AssertionError(message) from None
        print(f"ended with {code} after {time.monotonic() - self.told_at:.2f} s")
        self.child.join()
        self.log = self.child.complaint
        return code

    def kill(self) -> None:
        """As the system does when memory runs out."""
        self.child.process.kill()
        self.child.process.wait(PATIENCE)

    def ask(self, word: str) -> Any:
        """Have it answer, while its worker goes on."""
        return json.loads(self.child.ask(word))

    def wait_until(self, moment: float) -> None:
        """Wait for a moment, or until it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.child.process.wait(max(0.0, moment - time.monotonic()))

    def children(self) -> set[int]:
        """The processes that it has started."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}
