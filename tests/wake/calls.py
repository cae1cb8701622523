"""A wake callback that remembers."""

from __future__ import annotations

import threading
import time
from datetime import datetime


class Calls:
    """What a wake callback was told, and whether it has come to rest."""

    def __init__(self) -> None:
        self.told: list[datetime | None] = []
        self._changed = threading.Condition()

    def __call__(self, due: datetime | None) -> None:
        with self._changed:
            self.told.append(due)
            self._changed.notify_all()

    def wait(self, number: int, seconds: float = 30.0) -> None:
        """Until it was called so often in all."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.told) >= number, seconds), f"{len(self.told)} of {number}"

    def rest(self, quiet: float = 0.25, seconds: float = 30.0) -> int:
        """Until no call has come for a while: how many came in all. Silence is the subject, so that it takes time."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                before = len(self.told)
                if not self._changed.wait(quiet) and len(self.told) == before:
                    return before
                assert time.monotonic() < deadline, "the calls do not end"

    def clear(self) -> None:
        """Forget the first call, which tells of what was there before."""
        self.wait(1)
        self.rest()
        self.told.clear()
