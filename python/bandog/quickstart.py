"""The first job of the first seed, on an SQLite file: ``python -m bandog.quickstart [FILE]``.

The first run ingests and settles ``report-1``; running it again reports a duplicate and no ready work.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import bandog

if TYPE_CHECKING:
    from bandog import CancellationToken, ClaimedJob


def run(job: ClaimedJob, cancel: CancellationToken) -> bandog.Completed | bandog.Cancelled:
    """Print the payload. A real executor works here, and gives ``job.job_id`` to a provider that deduplicates."""
    if cancel.aborted:
        return bandog.Cancelled()
    print("running", job.job_id, "attempt", job.attempt, job.payload)
    return bandog.Completed()


def main(arguments: list[str]) -> int:
    """Ingest the job, tick once, read it back. Returns the exit code: 0, or 2 for wrong arguments."""
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-")):
        print("usage: python -m bandog.quickstart [FILE]", file=sys.stderr)
        return 2
    path = arguments[0] if arguments else "jobs.sqlite"
    job = bandog.Job(job_id="report-1", queue="reports", payload={"reportId": "monthly-1"}, max_recoveries=1)
    with bandog.connect(path) as queue, bandog.Watchdog(queue, run) as watchdog:
        print("ingest:", queue.ingest(job).kind)
        tick = watchdog.tick()
        print("tick:  ", tick.kind, *([tick.outcome.kind] if tick.outcome else []))
        record = queue.read("report-1")
        print("read:  ", record.job_id, record.state, *([record.outcome.kind] if record.outcome else []))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
