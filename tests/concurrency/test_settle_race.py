"""Reports at the very end of their leases, while recovery sweeps: each job goes one way, and both know it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from processes import PATIENCE, eventually

import bandog

if TYPE_CHECKING:
    from fix_target import Target

JOBS = 300
LEASE = 0.5


def test_a_late_report_and_recovery_agree(target: Target) -> None:
    said: Counter[str] = Counter()
    recovered: list[str] = []
    swept = threading.Event()
    with target.connect(busy_timeout=PATIENCE) as holder, target.connect(busy_timeout=PATIENCE) as sweeper:
        holder.ingest_many([bandog.Job(job_id=f"job-{number}", max_recoveries=1) for number in range(JOBS)])
        ends = time.monotonic() + LEASE
        claims = holder.claim("holder", limit=JOBS, lease=LEASE)
        assert len(claims) == JOBS

        def sweep() -> None:
            while not swept.is_set():
                # One at a time, so that the sweep lasts as long as the reports do.
                put_back, interrupted = sweeper.recover(limit=1)
                recovered.extend(put_back)
                assert interrupted == ()

        thread = threading.Thread(target=sweep, daemon=True)
        thread.start()
        # So that about half of the reports come before the end. How many do is the machine's affair.
        eventually(lambda: time.monotonic() > ends - 0.1, "the leases are about to end")
        answers = {}
        for claim in claims:
            try:
                answers[claim.job_id] = holder.acknowledge(claim, "by the holder").kind
            except bandog.StaleClaim:
                answers[claim.job_id] = "stale"
        stale = {job for job, answer in answers.items() if answer == "stale"}
        eventually(lambda: len(recovered) >= len(stale), "all expired claims are recovered")
        swept.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()

        assert set(recovered) == stale
        assert len(recovered) == len(stale)
        for job, answer in answers.items():
            record = holder.read(job)
            said[answer] += 1
            if answer == "stale":
                assert (record.state, record.outcome, record.attempts, record.recoveries) == ("queued", None, 1, 1)
            else:
                assert (record.outcome, record.attempts, record.recoveries) == (bandog.Completed("by the holder"), 1, 0)

        # The old claims change nothing about the second run either.
        again = sweeper.claim("second", limit=JOBS, lease=60)
        assert {claim.job_id for claim in again} == stale
        late = [claim for claim in claims if claim.job_id in stale]
        assert {settlement.kind for settlement in holder.settle_many([(old, bandog.Failed()) for old in late])} <= {
            "stale"
        }
        sweeper.settle_many([(claim, bandog.Completed("by the second")) for claim in again])
        assert {settlement.kind for settlement in holder.settle_many([(old, bandog.Failed()) for old in late])} <= {
            "stale"
        }
        assert {holder.read(job).outcome for job in stale} <= {bandog.Completed("by the second")}
    print(dict(said))
    target.assert_sound()
