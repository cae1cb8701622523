"""Log lines of a worker, on standard error: one a record, with the fields that say which job it is about.

What an executor's module has set up itself when it was imported stands, and nothing is logged twice.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bandog._cli.showing import compact, safe, stamp

if TYPE_CHECKING:
    from bandog.events import Event

__all__ = ["log_events", "set_up_logs"]

logger = logging.getLogger("bandog.worker")

FIELDS = ("job_id", "queue", "attempt")
"""What records of jobs have beside their message."""

LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
"""From ``-qq`` to ``-v``."""

USUAL = LEVELS.index(logging.INFO)


def set_up_logs(louder: int) -> None:
    """Log to standard error, unless somebody else has made a handler already.

    Args:
        louder: how many steps more (``-v``) or less (``-q``) than usual, which is from ``INFO`` on. More is for bandog
            alone: others would say how they do what they do.
    """
    level = LEVELS[min(max(USUAL + louder, 0), len(LEVELS) - 1)]
    ours = logging.getLogger("bandog")
    if ours.hasHandlers():
        if louder:
            ours.setLevel(level)
        return
    handler = _ToStandardError()
    handler.setFormatter(_Lines())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(max(level, logging.INFO))
    ours.setLevel(level)


def log_events(events: list[Event]) -> None:
    """Log every change of a job's state, for ``-v``."""
    for event in events:
        values = {name: value for name in FIELDS if (value := getattr(event, name)) is not None}
        logger.debug("%s%s", event.kind, f": {event.reason}" if event.reason else "", extra=values)


class _ToStandardError(logging.Handler):
    """Writes to what standard error is now: a progress bar takes its place while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
            if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] - it is where it was closed (2>&-)
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()
        except Exception:  # noqa: BLE001 - as every handler: a log line is not worth a job
            self.handleError(record)


class _Lines(logging.Formatter):
    """Time, level, logger, message, fields; a traceback below. Characters that are not printable are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        when = stamp(datetime.fromtimestamp(record.created, UTC))
        fields = "".join(f" {name}={_value(getattr(record, name))}" for name in FIELDS if hasattr(record, name))
        lines = [f"{when} {record.levelname} {record.name}: {safe(record.getMessage())}{fields}"]
        if record.exc_info and record.exc_info[0] is not None:
            lines += map(safe, self.formatException(record.exc_info).split("\n"))
        if record.stack_info:
            lines += map(safe, self.formatStack(record.stack_info).split("\n"))
        return "\n".join(lines)


def _value(value: object) -> str:
    return compact(value if isinstance(value, (str, int, float)) else repr(value))
