"""Writes one file through both libraries at once until it is told to stop: `mixer.py FILE NAME`.

Two threads admit jobs with bandog, two insert rows into the application's own table with the interpreter's sqlite3;
each opens and closes its connection over and over, since closing is what drops the other library's locks. It answers
with how many writes were acknowledged to each, and the test in the same folder runs it in its own process too.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import bandog

PATIENCE = 60.0
PAUSE = 0.0004
"""Between two writes of one thread, so that the threads take turns."""


class Mixer:
    """Four writing threads, and what was acknowledged to them."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self.stopped = threading.Event()
        self.acknowledged: dict[str, int] = {}
        self.problems: list[str] = []
        bodies = {"bandog-1": self.admit, "bandog-2": self.admit, "sqlite3-1": self.insert, "sqlite3-2": self.insert}
        self.threads = [
            threading.Thread(target=self.guard, args=(body, f"{name}-{which}"), daemon=True)
            for which, body in bodies.items()
        ]

    def guard(self, body: object, name: str) -> None:
        self.acknowledged[name] = 0
        try:
            while not self.stopped.is_set():
                body(name)  # type: ignore[operator]
        except BaseException as error:  # noqa: BLE001 - the test reports it
            self.problems.append(f"{name}: {error!r}")
            self.stopped.set()

    def admit(self, name: str) -> None:
        """Open, admit up to 50 jobs, look at one, close."""
        with bandog.connect(self.path, busy_timeout=PATIENCE) as queue:
            for _ in range(50):
                number = self.acknowledged[name] + 1
                queue.enqueue({"number": number}, job_id=f"{name}-{number}", queue=name)
                self.acknowledged[name] = number
                time.sleep(PAUSE)
                if self.stopped.is_set():
                    break
            assert queue.read(f"{name}-{self.acknowledged[name]}").state == "queued"

    def insert(self, name: str) -> None:
        """Open, insert up to 50 rows, look at all of them, close."""
        # No timeout: sqlite3's own waiting sleeps up to 100 ms at a time, and gets one commit in a hundred beside
        # others that try more often. What is to be mixed here are commits, not waits.
        with closing(sqlite3.connect(self.path, timeout=0, isolation_level=None)) as connection:
            for _ in range(50):
                number = self.acknowledged[name] + 1
                self.patiently(connection, "INSERT INTO application (writer, number) VALUES (?, ?)", (name, number))
                self.acknowledged[name] = number
                time.sleep(PAUSE)
                if self.stopped.is_set():
                    break
            count = "SELECT count(*) FROM application WHERE writer = ?"
            ((found,),) = self.patiently(connection, count, (name,))
            assert found == self.acknowledged[name], (found, self.acknowledged[name])

    @staticmethod
    def patiently(connection: sqlite3.Connection, statement: str, parameters: tuple) -> list[tuple]:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return connection.execute(statement, parameters).fetchall()
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(PAUSE / 2)

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def stop(self) -> dict[str, int]:
        """The acknowledged writes of each thread."""
        self.stopped.set()
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"{thread} hangs"
        assert not self.problems, self.problems
        return self.acknowledged


def main() -> None:
    path, name = sys.argv[1:]
    mixer = Mixer(Path(path), name)
    mixer.start()
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(mixer.stop()), flush=True)


if __name__ == "__main__":
    main()
