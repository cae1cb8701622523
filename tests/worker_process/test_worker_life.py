"""C46 through a worker: a long life leaves no memory, threads, descriptors, tasks or frames behind.

``BANDOG_LIFE`` scales it: 10 is a twentieth of the figure of C46, 200 all of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from processes import assert_sound

if TYPE_CHECKING:
    from processes import Child

SCALE = float(os.environ.get("BANDOG_LIFE", "1"))
MEBIBYTE = 1 << 20
AT_ONCE = 16


@pytest.mark.parametrize("how", ["threads", "coroutines"])
def test_a_long_life_leaves_nothing_behind(tmp_path: Path, start: Callable[..., Child], how: str) -> None:
    path = tmp_path / "jobs.sqlite"
    child = start("living.py", path, how, SCALE)
    facts = json.loads(child.hear(160 * max(1.0, SCALE)))
    child.finish()
    for name, grown in facts["phases"].items():
        print(how, name, grown)
    # Each phase and a tenth of it.
    counts = [int(size * SCALE) + int(size * SCALE) // 10 for size in (20_000, 5_000, 2_000)]
    assert [facts[kind] for kind in ("completed", "failed", "cancelled")] == counts
    assert facts["events"] == 2 * sum(counts), "one for the claim and one for its end"
    assert facts["lines"] > 5 * counts[1], "each failure was logged with its traceback"
    for name, grown in facts["phases"].items():
        assert grown["resident"] <= 20 * MEBIBYTE, name
        assert grown["threads"] <= 0, name
        assert grown["python_threads"] <= 0, name
        assert grown["descriptors"] <= 0, name
        assert grown["tasks"] <= 0, name
        assert grown["held"] == 0, name
        # Not even until the next collection of garbage, but for the last one of each thread.
        assert grown["uncollected"] <= AT_ONCE, name
        assert grown["large"] <= 0, name
    assert_sound(path)
