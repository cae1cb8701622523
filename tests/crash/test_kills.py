"""SIGKILL at any moment of ingesting, claiming, running and settling, and what must hold afterwards.

`BANDOG_CRASH_ROUNDS` is the number of kills (by default 150 on a file, 20 on a server), `BANDOG_CRASH_SEED` repeats a
sequence of dice. The moments of the kills are the machine's, so that a seed repeats the kind of run, not the run. A
long run also needs `--timeout=0`.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bandog

if TYPE_CHECKING:
    from fix_target import Target
    from processes import Child

GIVEN = os.environ.get("BANDOG_CRASH_ROUNDS")
ROUNDS = {"sqlite": int(GIVEN or 150), "postgres": int(GIVEN or 20)}
SEED = os.environ.get("BANDOG_CRASH_SEED") or os.urandom(4).hex()
CHURNERS = 4
PUT_BACK = {"retried", "snoozed", "released"}


class Journal:
    """What all processes wrote down before they died."""

    def __init__(self, path: Path) -> None:
        lines = path.read_bytes().splitlines(keepends=True)
        self.notes = [json.loads(line) for line in lines]
        self.tried: list[dict[str, list[int | None]]] = [note["jobs"] for note in self.of("tries")]
        self.budgets = {job: budgets for batch in self.tried for job, budgets in batch.items()}
        self.admitted = [job for note in self.of("admitted") for job in note["jobs"]]
        self.claimed = Counter((note["job"], note["attempt"]) for note in self.of("claimed"))
        self.effects = {(note["job"], note["attempt"]) for note in self.of("effect")}
        self.settled: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for note in self.of("settled"):
            self.settled[note["job"]].append((note["attempt"], note["kind"]))

    def of(self, what: str) -> list[dict]:
        return [note for note in self.notes if note["what"] == what]


def kill_at_random(start: Callable[..., Child], target: Target, journal: Path, rounds: int) -> None:
    chance = random.Random(SEED)
    children: list[Child] = []
    for number in range(rounds + CHURNERS):
        children.append(start("churner.py", target.url, journal, f"{SEED}-{number}"))
        if len(children) < CHURNERS:
            continue
        victim = children.pop(chance.randrange(len(children)))
        # Mostly at work; now and then while it is opening the store.
        if chance.random() < 0.9:
            assert victim.hear() == "ready"
        time.sleep(chance.random() ** 2 * 0.15)
        assert victim.process.poll() is None, f"it died by itself: {victim.finish()}"
        victim.kill()
    for child in children:
        child.kill()
    target.await_end_of_the_killed()


def drain(target: Target) -> int:
    """One process that lives: when it is through, nothing may be left."""
    ran = 0
    deadline = time.monotonic() + 60
    with target.connect() as queue:
        while queue.has_pending_work():
            assert time.monotonic() < deadline, "the rest was never settled"
            claims = queue.claim("survivor", limit=500, lease=30)
            ran += len(claims)
            reports = [(claim, bandog.Completed({"by": "survivor", "attempt": claim.attempt})) for claim in claims]
            assert {settlement.kind for settlement in queue.settle_many(reports)} <= {"completed"}
            if not claims:
                # Leases of the dead, and back-offs: their ends are what is waited for.
                time.sleep(0.02)
    return ran


def check_one(record: bandog.JobRecord, journal: Journal) -> None:
    """Everything that is promised of one job."""
    job = record.job_id
    max_attempts, max_recoveries, length = journal.budgets[job]
    assert record.state == "settled"
    assert record.outcome is not None
    assert record.payload == {"text": "x" * length}
    assert (record.max_attempts, record.max_recoveries) == (max_attempts, max_recoveries)

    # Budgets.
    charged = record.attempts - record.given_back
    assert max_attempts is None or charged <= max_attempts
    most = max_recoveries if max_recoveries is not None else (1 if max_attempts is None else max_attempts)
    assert record.recoveries <= most

    # Every claim ended in one way: put back by its holder, recovered, or with the outcome.
    answers = journal.settled[job]
    retried = sum(kind == "retried" for _, kind in answers)
    given_back = sum(kind in {"snoozed", "released"} for _, kind in answers)
    assert given_back <= record.given_back
    assert retried + record.given_back + record.recoveries + 1 <= record.attempts
    seen = [attempt for (name, attempt) in journal.claimed if name == job]
    assert len(seen) <= record.attempts
    assert all(1 <= attempt <= record.attempts for attempt in seen)

    # What was acknowledged stands.
    attempts = [attempt for attempt, _ in answers]
    assert len(set(attempts)) == len(attempts), "one claim was answered twice"
    for attempt, kind in answers:
        if kind in PUT_BACK:
            assert attempt < record.attempts
        else:
            assert (attempt, kind) == (record.attempts, record.outcome.kind)

    # No success without its work.
    if isinstance(record.outcome, bandog.Completed):
        result = record.outcome.result
        assert result["attempt"] == record.attempts
        assert result["by"] == "survivor" or (job, record.attempts) in journal.effects
    else:
        assert record.outcome.kind in {"failed", "outcome_unknown", "interrupted"}


# Each kill takes the start of an interpreter, which lasts a second where others are at work.
@pytest.mark.timeout(900)
def test_kills_lose_nothing_and_settle_nothing_twice(
    target: Target, tmp_path: Path, start: Callable[..., Child]
) -> None:
    rounds = ROUNDS[target.kind]
    print(f"BANDOG_CRASH_SEED={SEED} BANDOG_CRASH_ROUNDS={rounds}")
    notes = tmp_path / "journal"
    kill_at_random(start, target, notes, rounds)
    left = drain(target)
    journal = Journal(notes)

    target.assert_sound()
    stored = {job for (job,) in target.select("SELECT job_id FROM bandog_job")}
    assert set(journal.admitted) <= stored, "acknowledged jobs are gone"
    assert stored <= set(journal.budgets), "jobs that nobody ingested"
    for batch in journal.tried:
        assert stored.issuperset(batch) or stored.isdisjoint(batch), "half a batch"
    twice = [claim for claim, times in journal.claimed.items() if times > 1]
    assert not twice, "two holders of one claim"
    assert target.select("SELECT count(*) FROM bandog_outcome") == [(len(stored),)]

    kinds: Counter[str] = Counter()
    recovered = 0
    with target.connect() as queue:
        for job in stored:
            record = queue.read(job)
            check_one(record, journal)
            kinds[record.outcome.kind] += 1
            recovered += record.recoveries
    print(f"{rounds} kills, {len(stored)} jobs, {recovered} recoveries, {left} drained, {dict(kinds)}")
    print(Counter(note["what"] for note in journal.notes))
    # The run must have been what it claims to be.
    assert recovered > rounds // 20
    assert kinds["interrupted"] > 0
    assert kinds["completed"] > rounds
