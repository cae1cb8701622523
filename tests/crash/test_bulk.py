"""Killed while ingesting many jobs in one call: all of them are there, or none."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import bandog

if TYPE_CHECKING:
    from fix_target import Target
    from processes import Child

ROUNDS = {"sqlite": 20, "postgres": 6}
JOBS = 5_000


def stored(target: Target, prefix: str) -> int:
    return target.select("SELECT count(*) FROM bandog_job WHERE job_id LIKE ?", f"{prefix}-%")[0][0]


def test_a_batch_is_there_as_a_whole_or_not_at_all(target: Target, start: Callable[..., Child]) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)

    def begin(prefix: str) -> Child:
        child = start("errand.py")
        assert child.hear() == "ready"
        assert child.ask(f"open {target.url}") == "opening"
        assert child.hear() == "open"
        assert child.ask(f"bulk {prefix} {JOBS}") == "ingesting"
        return child

    # How long it takes undisturbed on this machine, so that the kills fall into it.
    child = begin("whole")
    started = time.monotonic()
    assert child.hear() == "ingested"
    duration = time.monotonic() - started
    child.kill()
    assert stored(target, "whole") == JOBS

    counts = []
    for number in range(ROUNDS[target.kind]):
        prefix = f"round{number}"
        child = begin(prefix)
        time.sleep(chance.random() * duration * 1.2)
        child.kill()
        acknowledged = child.rest() == ["ingested"]
        target.await_end_of_the_killed()
        count = stored(target, prefix)
        assert count in {0, JOBS}, f"round {number}: {count} of {JOBS}"
        assert count == JOBS or not acknowledged, f"round {number}: acknowledged and lost"
        counts.append(count)
    print(f"{counts.count(0)} rounds stored nothing, {counts.count(JOBS)} everything; undisturbed {duration:.3f} s")
    assert 0 in counts, "no kill came before the commit"
    target.assert_sound()

    # The caller's answer to a batch of unknown fate: the same call again.
    with target.connect() as queue:
        jobs = [bandog.Job(job_id=f"round0-{number}", payload=number) for number in range(JOBS)]
        kinds = {admission.kind for admission in queue.ingest_many(jobs)}
        assert kinds == ({"duplicate"} if counts[0] else {"admitted"})
        assert {admission.kind for admission in queue.ingest_many(jobs)} == {"duplicate"}
    assert stored(target, "round0") == JOBS
