"""Killed while the file comes into being: afterwards it is whole, or not there yet; never half made."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from processes import Child, assert_sound, select

import bandog

ROUNDS = 40
OURS = "SELECT type, name, sql FROM sqlite_master WHERE name LIKE 'bandog%' ORDER BY name"
VERSIONS = "SELECT version FROM bandog_schema ORDER BY version"


def test_a_file_is_never_half_made(tmp_path: Path, start: Callable[..., Child]) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    undisturbed = tmp_path / "undisturbed.sqlite"
    started = time.monotonic()
    bandog.connect(undisturbed).close()
    duration = time.monotonic() - started
    whole, versions = select(undisturbed, OURS), select(undisturbed, VERSIONS)
    assert whole
    # Four rounds' worth of processes wait, so that a round costs no start of an interpreter.
    waiting = [start("errand.py") for _ in range(8)]
    found = {"nothing": 0, "whole": 0, "acknowledged": 0}
    for number in range(ROUNDS):
        path = tmp_path / f"round-{number}.sqlite"
        # Two at once, so that one is killed while the other waits for it, too.
        openers = [waiting.pop(0) for _ in range(2)]
        for opener in openers:
            assert opener.hear() == "ready"
        for opener in openers:
            opener.say(f"open {path}")
        for opener in openers:
            assert opener.hear() == "opening"
        # From at once to well after the end: both must happen, on a machine that is busy with other things too.
        if number % 4 != 1:
            time.sleep(chance.random() ** 2 * duration * 4)
        if number % 4 == 0:
            assert openers[0].hear() == "open"
        for opener in openers:
            opener.kill()
        waiting.extend(start("errand.py") for _ in range(2))

        ours = select(path, OURS)
        opened = number % 4 == 0 or any("open" in opener.rest() for opener in openers)
        found["acknowledged"] += opened
        found["whole" if ours else "nothing"] += 1
        assert ours in (whole, []), f"round {number}: half a schema"
        if opened:
            assert ours, f"round {number}: what was opened is gone"
        if ours:
            assert select(path, VERSIONS) == versions
            assert select(path, "SELECT count(*) FROM bandog_clock") == [(1,)]

        with bandog.connect(path) as queue:
            queue.enqueue(number, job_id="first")
            (claim,) = queue.claim()
            queue.acknowledge(claim)
            assert queue.read("first").outcome == bandog.Completed()
        assert_sound(path)
    print(found)
    assert found["whole"] > 0
    assert found["nothing"] > 0
