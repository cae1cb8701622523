"""Threads, event loops, callbacks, finalizers and a thread that keeps the interpreter, all at once (C47).

``BANDOG_BOUNDARY`` has the seconds: 120 is the figure of C47.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from processes import Child, eventually

if TYPE_CHECKING:
    from fix_target import Target

SECONDS = float(os.environ.get("BANDOG_BOUNDARY", "12"))

STALL = 2.0
"""Seconds, beside the longest spin, in which at least one call of the 48 under way must end. They share two cores with
a thread that takes half of one, and a commit may wait for the disk.
"""


def test_nothing_stalls_or_deadlocks_and_every_job_ends_once(target: Target, start: Callable[..., Child]) -> None:
    child = start("boundary.py", target.relaxed, SECONDS)
    assert child.hear() == "running"
    # This process would find the kept claim expired if it were once not renewed within its second.
    lost: list[str] = []
    with target.connect(busy_timeout=60) as queue:

        def over() -> bool:
            recovered, interrupted = queue.recover()
            lost.extend([*recovered, *interrupted])
            return not child.lines.empty()

        eventually(over, "the child is done", patience=SECONDS + 120)
    facts = json.loads(child.hear())
    child.finish()
    print({name: fact for name, fact in facts.items() if not isinstance(fact, list)})
    assert facts["problems"] == []
    assert lost == []
    assert (facts["kept"], facts["aborted"]) == ("settled", None)
    for kind in ("thread", "loop", "wake", "wake of the other", "log", "del"):
        assert facts["count"][kind] > 10, f"{kind} was hardly called, so that this shows little"
    assert facts["gap"]["any"] <= STALL + facts["spin"]
    assert facts["stopping"] < 30
    assert (facts["admitted twice"], facts["ended twice"]) == ([], [])
    target.assert_sound()
    # The child counts what it is told, in callbacks that may be cut short at the end; the store knows.
    ((jobs, outcomes, queued, running),) = target.select(
        "SELECT (SELECT count(*) FROM bandog_job), (SELECT count(*) FROM bandog_outcome), "
        "(SELECT count(*) FROM bandog_ready), (SELECT count(*) FROM bandog_lease)",
    )
    assert (outcomes, queued, running) == (jobs, 0, 0)
    assert jobs >= facts["admitted"] + 1
    assert facts["ended"] <= outcomes
