"""A child that uses its own connection, and says how far it has come. It is killed where the test wants it."""

import sqlite3
import sys

import bandog

path, task = sys.argv[1:]
queue = bandog.connect(path)
connection = sqlite3.connect(path)
connection.execute("CREATE TABLE IF NOT EXISTS business (word TEXT)")
if task == "settle-again":
    # The lease of the one that was killed ends, as it does by itself after a while.
    connection.execute("UPDATE bandog_lease SET lease_until = 1")
    connection.commit()
claims = queue.claim() if task.startswith("settle") else []


def step(word: str) -> None:
    print(word, flush=True)
    sys.stdin.readline()


step("ready")
connection.execute("INSERT INTO business VALUES ('paid')")
step("wrote")
if task == "enqueue":
    queue.enqueue({"n": 1}, job_id="a", connection=connection)
else:
    queue.acknowledge(claims[0], connection=connection)
step("done")
connection.commit()
step("committed")
