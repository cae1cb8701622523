"""Another program with a table of its own in the queue's file: `neighbour.py FILE MILLISECONDS`.

It writes a row in a transaction at that pace until it is told to stop, and answers with how many it wrote.
"""

from __future__ import annotations

import selectors
import sqlite3
import sys
import time
from contextlib import closing


def main() -> None:
    path, pace = sys.argv[1], float(sys.argv[2]) / 1000
    rows = 0
    with (
        closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection,
        selectors.DefaultSelector() as told,
    ):
        connection.execute("CREATE TABLE IF NOT EXISTS application (number INTEGER)")
        told.register(sys.stdin, selectors.EVENT_READ)
        print("ready", flush=True)
        deadline = time.monotonic() + 60
        while not told.select(pace):
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                assert time.monotonic() < deadline, "locked out for a minute"
                continue
            connection.execute("INSERT INTO application VALUES (?)", (rows,))
            connection.execute("COMMIT")
            rows += 1
            deadline = time.monotonic() + 60
    print(rows, flush=True)


main()
