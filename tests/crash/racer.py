"""A claimer that claims at the given instant: `racer.py URL NAME`, then one line `INSTANT` per round."""

from __future__ import annotations

import sys
import time

import bandog


def main() -> None:
    """Answer each instant with the job that was claimed then, or with a dash."""
    url, name = sys.argv[1:]
    with bandog.connect(url) as queue:
        print("ready", flush=True)
        for line in sys.stdin:
            instant = int(line)
            # Spinning, because waking from sleep differs by more than a claim takes. All processes share the clock.
            while time.monotonic_ns() < instant:
                pass
            claims = queue.claim(name, limit=1)
            print(*[f"{claim.job_id} {claim.attempt}" for claim in claims] or ["-"], flush=True)


main()
