"""Another program with a table of its own where the queue is: `neighbour.py URL MILLISECONDS`.

It writes a row in a transaction at that pace until it is told to stop, and answers with how many it wrote.
"""

from __future__ import annotations

import selectors
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import psycopg

TABLE = "CREATE TABLE IF NOT EXISTS application (number INTEGER)"

Write = Callable[[int], bool]
"""Write a row; false where another writer was in the way."""


@contextmanager
def on_file(path: str) -> Iterator[Write]:
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        connection.execute(TABLE)

        def write(number: int) -> bool:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            connection.execute("INSERT INTO application VALUES (?)", (number,))
            connection.execute("COMMIT")
            return True

        yield write


@contextmanager
def on_server(url: str) -> Iterator[Write]:
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute(TABLE)

        def write(number: int) -> bool:
            connection.execute("INSERT INTO application VALUES (%s)", (number,))
            return True

        yield write


def main() -> None:
    url, pace = sys.argv[1], float(sys.argv[2]) / 1000
    rows = 0
    opened = on_server(url) if url.startswith("postgresql:") else on_file(url)
    with opened as write, selectors.DefaultSelector() as told:
        told.register(sys.stdin, selectors.EVENT_READ)
        print("ready", flush=True)
        deadline = time.monotonic() + 60
        while not told.select(pace):
            if write(rows):
                rows += 1
                deadline = time.monotonic() + 60
            assert time.monotonic() < deadline, "locked out for a minute"
    print(rows, flush=True)


main()
