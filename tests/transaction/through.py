"""A queue whose jobs are admitted and settled through connections of the caller's, each in a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import bandog

CALLS = (
    *("ingest", "ingest_many", "enqueue", "settle", "acknowledge", "fail", "cancelled", "outcome_unknown", "release"),
)


class ThroughConnection:
    """The queue's own calls, but for those that take a connection."""

    def __init__(self, queue: bandog.Queue, connect: Callable[[], Any]) -> None:
        self.queue = queue
        self._connect = connect

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.queue, name)
        if name not in CALLS:
            return attribute

        def called(*arguments: Any, **options: Any) -> Any:
            with closing(self._connect()) as connection:
                try:
                    return attribute(*arguments, connection=connection, **options)
                finally:
                    connection.commit()  # also after a conflict or the like, which has changed nothing

        return called

    def settle_many(self, reports: Any) -> list[bandog.Settlement]:
        """One by one, so that the answers are the queue's: a lost claim among many raises here."""
        return [self._settled(claim, report) for claim, report in list(reports)]

    def _settled(self, claim: Any, report: Any) -> bandog.Settlement:
        try:
            return self.settle(claim, report)
        except bandog.StaleClaim:
            return bandog.Settlement("stale")
        except bandog.JobNotFound:
            return bandog.Settlement("not_found")
