"""Several processes want one job at the same instant."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fix_target import Target
    from processes import Child

ROUNDS = 150
CLAIMERS = 4


def test_of_four_claimers_exactly_one_wins(target: Target, start: Callable[..., Child]) -> None:
    winners = set()
    with target.connect() as queue:
        racers = [start("racer.py", target.url, f"racer-{number}") for number in range(CLAIMERS)]
        assert [racer.hear() for racer in racers] == ["ready"] * CLAIMERS
        for number in range(ROUNDS):
            queue.enqueue(number, job_id=f"job-{number}")
            # Far enough ahead for the last one to have read its line.
            instant = time.monotonic_ns() + 2_000_000
            for racer in racers:
                racer.say(str(instant))
            answers = [racer.hear() for racer in racers]
            assert sorted(answers) == ["-", "-", "-", f"job-{number} 1"], f"round {number}"
            winners.add(answers.index(f"job-{number} 1"))
            assert queue.read(f"job-{number}").attempts == 1
    for racer in racers:
        racer.finish()
    assert len(winners) > 1, "it was never a race"
    target.assert_sound()
