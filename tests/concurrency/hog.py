"""Runs one job under a short lease while something keeps the interpreter lock: `hog.py URL HOW LEASE SECONDS`.

HOW is `spin` (pure Python that never gives the lock up), `call` (one long call into C), `other` (such a call in another
thread than the executor's) or `busy` (`spin`, and each renewal is refused several times by a lock).
"""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
import time
from contextlib import closing, nullcontext

import bandog

DIGITS = 100_000


def spin(seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pass


def long_call(seconds: float) -> None:
    """One call into C that keeps the lock for at least so long."""
    digits = DIGITS
    while True:
        begin = time.monotonic()
        text = str(10**digits)
        taken = time.monotonic() - begin
        assert len(text) == digits + 1
        if taken >= seconds:
            return
        # It takes quadratic time in CPython.
        digits = int(digits * max(1.5, (1.2 * seconds / taken) ** 0.5))


def main() -> None:
    url, how, lease, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    sys.set_int_max_str_digits(0)
    # No thread is asked to give the lock up: whoever has it keeps it until it blocks or ends.
    sys.setswitchinterval(1000)
    facts = {"starts": 0, "attempt": 0, "aborted": None}

    def execute(job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> None:
        facts["starts"] += 1
        facts["attempt"] = job.attempt
        print("running", flush=True)
        sys.stdin.readline()
        if how in {"spin", "busy"}:
            spin(seconds)
        elif how == "call":
            long_call(seconds)
        else:
            thread = threading.Thread(target=long_call, args=(seconds,))
            thread.start()
            thread.join()
        facts["aborted"] = cancel.reason

    timeout = 0.05 if how == "busy" else 5
    # A file is open through two libraries, as where the jobs use it too.
    second = nullcontext() if url.startswith("postgresql:") else closing(sqlite3.connect(url))
    with bandog.connect(url, busy_timeout=timeout) as queue, second:
        queue.enqueue(job_id="kept", max_recoveries=5)
        facts["tick"] = bandog.Watchdog(queue, execute, lease=lease).tick().kind
    print(json.dumps(facts), flush=True)


main()
