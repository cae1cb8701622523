"""Helpers for tests: a clock that stands still until it is moved."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bandog._native import core

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["FakeClock"]

_START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """A clock for ``connect(…, clock=…)``. Several queues may share one."""

    def __init__(self, start: datetime = _START) -> None:
        """Make a clock that shows ``start``, an aware ``datetime``. Default 2026-01-01 in UTC."""
        self.native = core.FakeClock(start)

    def now(self) -> datetime:
        """The wall time, an aware ``datetime`` in UTC."""
        return self.native.now()

    def advance(self, by: float | timedelta) -> None:
        """Time passes, seconds (float) or ``timedelta``: the wall clock and the uptime that leases are measured on."""
        self.native.advance(by)

    def step_wall(self, by: float | timedelta) -> None:
        """Somebody sets the wall clock, by seconds (float) or ``timedelta``; negative to set it back."""
        self.native.step_wall(by)

    def reboot(self, boot: str) -> None:
        """The machine is started again: the uptime begins anew. ``boot`` names it. Open the queue again afterwards."""
        self.native.reboot(boot)
