"""A call that waits for a lock when Ctrl-C comes: `blocked.py URL CALL`.

CALL is `enqueue`, `claim`, `settle` or `tick`. Answers when the call is under way, when it was interrupted, what the
queue then does, and what has become of the job that an interrupted claim may have taken.
"""

from __future__ import annotations

import signal
import sqlite3
import sys
import threading
import time
from contextlib import closing

import psycopg

import bandog
from bandog._operations import Call


def tell_when_blocked(main: int) -> None:
    """Once the main thread is inside the call: a signal that comes earlier would show nothing."""
    while (frame := sys._current_frames().get(main)) is None or frame.f_code is not Call.wait.__code__:
        time.sleep(0.001)
    print("blocking", flush=True)


def locked(url: str) -> closing[sqlite3.Connection] | closing[psycopg.Connection[tuple]]:
    """A connection whose transaction keeps all others from writing."""
    if url.startswith("postgresql:"):
        on_server = psycopg.connect(url, autocommit=True)
        tables = "bandog.job, bandog.ready, bandog.lease, bandog.outcome"
        on_server.execute(f"BEGIN; LOCK TABLE {tables} IN EXCLUSIVE MODE".encode())
        return closing(on_server)
    on_file = sqlite3.connect(url, isolation_level=None)
    on_file.execute("BEGIN IMMEDIATE")
    return closing(on_file)


def main() -> None:
    url, call = sys.argv[1:]
    # A shell starts what runs in the background with this signal ignored, and that is inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with bandog.connect(url, busy_timeout=120) as queue:
        queue.enqueue(job_id="held")
        (held,) = queue.claim(lease=60)
        queue.enqueue(job_id="early")
        watchdog = bandog.Watchdog(queue, lambda _job, _cancel: None, lease=60)
        calls = {
            "enqueue": lambda: queue.enqueue(job_id="interrupted"),
            "claim": lambda: queue.claim(lease=60),
            "settle": lambda: queue.acknowledge(held),
            "tick": watchdog.tick,
        }
        with locked(url) as other:
            teller = threading.Thread(target=tell_when_blocked, args=(threading.get_ident(),), daemon=True)
            teller.start()
            try:
                calls[call]()
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            else:
                print("returned", flush=True)
            other.execute("COMMIT")
        # As if nothing had happened.
        print(queue.enqueue(job_id="after").kind, queue.settle(held, bandog.Completed()).kind, flush=True)
        deadline = time.monotonic() + 10
        while queue.read("early").state != "settled" and time.monotonic() < deadline:
            queue.settle_many([(claim, bandog.Completed()) for claim in queue.claim(lease=60)])
            time.sleep(0.01)
        print("early", queue.read("early").state, flush=True)


main()
