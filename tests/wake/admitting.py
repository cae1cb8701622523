"""Another process admits jobs: `admitting.py FILE`. For each line it admits a job of that name, and says it."""

from __future__ import annotations

import sys

import bandog

with bandog.connect(sys.argv[1]) as queue:
    print("ready", flush=True)
    for line in sys.stdin:
        queue.enqueue(job_id=line.strip())
        print(line.strip(), flush=True)
