"""As :mod:`killed`, with a connection to a server."""

import sys

import psycopg

import bandog

url, task = sys.argv[1:]
queue = bandog.connect(url)
connection = psycopg.connect(url)
claims = queue.claim() if task == "settle" else []


def step(word: str) -> None:
    print(word, flush=True)
    sys.stdin.readline()


connection.execute("INSERT INTO business VALUES ('paid')")
if task == "enqueue":
    queue.enqueue({"n": 1}, job_id="a", connection=connection)
else:
    queue.acknowledge(claims[0], connection=connection)
step("done")
connection.commit()
step("committed")
