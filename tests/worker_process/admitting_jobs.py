"""Admits jobs from another process: `admitting_jobs.py FILE`. Reads lines `ID DELAY`, answers once each is admitted."""

from __future__ import annotations

import sys

import bandog


def main() -> None:
    with bandog.connect(sys.argv[1]) as queue:
        print("ready", flush=True)
        for line in sys.stdin:
            job_id, delay = line.split()
            queue.enqueue({"do": "effect"}, job_id=job_id, delay=float(delay))
            print("admitted", flush=True)


if __name__ == "__main__":
    main()
