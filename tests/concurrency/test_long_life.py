"""A worker that lives long does not grow: by jobs done, failed or cancelled, or by calls that were abandoned (C46).

``BANDOG_LIFE`` scales it: 10 is the figure of C46, by default 1 on a file and a tenth of it on a server.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fix_target import Target
    from processes import Child

GIVEN = os.environ.get("BANDOG_LIFE")
SCALE = {"sqlite": float(GIVEN or 1), "postgres": float(GIVEN or 0.1)}
MEBIBYTE = 1 << 20


def test_a_long_life_leaves_no_memory_threads_descriptors_or_frames(
    target: Target, start: Callable[..., Child]
) -> None:
    scale = SCALE[target.kind]
    child = start("lifelong.py", target.relaxed, scale)
    facts = json.loads(child.hear(160 * max(1.0, scale)))
    child.finish()
    for name, grown in facts["phases"].items():
        print(name, grown)
    assert set(facts["phases"]) == {"completing", "failing", "cancelling", "abandoning"}
    assert facts["held"] == 0
    for name, grown in facts["phases"].items():
        assert grown["resident"] <= 20 * MEBIBYTE, name
        assert grown["threads"] <= 0, name
        assert grown["descriptors"] <= 0, name
        # Not even until the next collection of garbage, but for the last one of each face.
        assert grown["uncollected"] <= 2, name
        assert grown["large"] <= 0, name
    target.assert_sound()
