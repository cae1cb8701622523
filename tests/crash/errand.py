"""One process that does as it is told, a line at a time, and is usually killed on the way: `errand.py`.

    open URL             connect
    bulk PREFIX COUNT    ingest COUNT jobs in one call
    claim NAME LEASE N   claim, and answer with `job_id lease_token` of each
    use JOB_ID TOKEN     renew and acknowledge with somebody else's token

It answers when it starts, before the part that may be interrupted, and after it.
"""

from __future__ import annotations

import sys

import bandog


def words_of(queue: bandog.Queue, job_id: str, token: str) -> list[str]:
    """What the queue says to an old claim."""
    answers = []
    for use in (queue.renew, queue.acknowledge, queue.release):
        try:
            use((job_id, token))
        except bandog.StaleClaim:
            answers.append("stale")
        else:
            answers.append("accepted")
    return answers


def main() -> None:
    queue: bandog.Queue | None = None
    print("ready", flush=True)
    for line in sys.stdin:
        match line.split():
            case ["open", url]:
                print("opening", flush=True)
                queue = bandog.connect(url)
                print("open", flush=True)
            case ["bulk", prefix, count]:
                jobs = [bandog.Job(job_id=f"{prefix}-{number}", payload=number) for number in range(int(count))]
                print("ingesting", flush=True)
                queue.ingest_many(jobs)
                print("ingested", flush=True)
            case ["claim", name, lease, limit]:
                claims = queue.claim(name, lease=float(lease), limit=int(limit))
                print(*[f"{claim.job_id} {claim.lease_token}" for claim in claims], flush=True)
            case ["use", job_id, token]:
                print(*words_of(queue, job_id, token), flush=True)


main()
