"""A producer of another host: `telling.py URL JOB_ID…` admits jobs, one by one, and leaves at once."""

from __future__ import annotations

import sys

import bandog


def main() -> None:
    with bandog.connect(sys.argv[1]) as queue:
        for job_id in sys.argv[2:]:
            queue.enqueue(job_id=job_id)


if __name__ == "__main__":
    main()
