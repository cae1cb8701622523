"""A process that has never seen bandog asks a file: `asker.py FILE`, then one statement per line; answers in JSON."""

from __future__ import annotations

import json
import sqlite3
import sys


def main() -> None:
    connection = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
    for line in sys.stdin:
        print(json.dumps(connection.execute(line).fetchall()), flush=True)
    connection.close()


main()
