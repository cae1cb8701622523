"""Both clocks of this machine, as the engine reads them (``rust/clock.rs``), in whole microseconds."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from bandog.stores.records import microseconds

if TYPE_CHECKING:
    from bandog.testing import FakeClock

__all__ = ["Instants", "now"]


class Instants(NamedTuple):
    """One reading: microseconds since 1970, and since the machine was started, sleep included."""

    wall: int
    uptime: int


def now(fake: FakeClock | None, noted: int) -> Instants:
    """The time, by the machine's clocks or by a test's.

    Args:
        fake: the clock of a test; ``None`` for the machine's.
        noted: where the wall clock stood against the uptime when the file was last written: a fake clock shows no
            uptime.
    """
    if fake is not None:
        wall = microseconds(fake.now())
        return Instants(wall, wall - noted)
    wall = time.time_ns() // 1000
    if sys.platform == "linux":
        return Instants(wall, time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000)
    if sys.platform != "win32":
        return Instants(wall, time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000)
    return Instants(wall, wall)
