"""What was typed, read: JSON values, durations and times."""

from __future__ import annotations

import json
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bandog._native import core
from bandog._opening import DEFAULT_PAYLOAD_LIMIT
from bandog.errors import PayloadError

if TYPE_CHECKING:
    from typing import BinaryIO

    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # older versions cannot be subscripted

__all__ = ["DURATION", "JSON", "OUTCOMES", "STATES", "TIME"]

STATES = click.Choice(["queued", "running", "settled"])
OUTCOMES = click.Choice(["completed", "failed", "cancelled", "outcome_unknown", "interrupted"])

MOST_INPUT = 16 << 20
"""Bytes of a JSON text that are read. It may be longer than what is stored, by its spaces; but not without end."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")


class Json(ParamType):
    """A JSON value: given as an argument, ``-`` for standard input, or ``@file``."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value, checked as a payload is, so that nothing of it is lost on the way (a key that occurs twice)."""
        text: str = value
        try:
            if text == "-":
                if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - it is where it was closed (<&-)
                    self.fail("standard input is closed", param, ctx)
                text = _read(sys.stdin.buffer)
            elif text.startswith("@"):
                with Path(text[1:]).open("rb") as file:
                    text = _read(file)
            return json.loads(core.canonical_json_text(text, DEFAULT_PAYLOAD_LIMIT))
        except PayloadError as error:
            self.fail(error.message, param, ctx)
        except UnicodeError:
            self.fail("not UTF-8", param, ctx)
        except (OSError, ValueError) as error:
            self.fail(f"cannot be read: {error}", param, ctx)


def _read(source: BinaryIO) -> str:
    content = source.read(MOST_INPUT + 1)
    if len(content) > MOST_INPUT:
        message = f"more than {MOST_INPUT >> 20} MiB"
        raise ValueError(message)
    return content.decode()


class Duration(ParamType):
    """Seconds, or numbers with units: ``90``, ``1.5h``, ``1h30m``, ``7d``."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds."""
        try:
            return float(value)
        except ValueError:
            parts = _PART.findall(value)
        if not parts or "".join(number + unit for number, unit in parts) != value:
            self.fail(f"{value!r} is no duration: give seconds, or units as in 90s, 15m, 1h30m, 7d", param, ctx)
        return sum(float(number) * _UNITS[unit] for number, unit in parts)


class Time(ParamType):
    """A time in ISO 8601, with its offset from UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The aware ``datetime``."""
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            self.fail(f"{value!r} is no time with an offset, such as 2026-12-24T18:00:00+01:00", param, ctx)
        return moment


JSON = Json()
DURATION = Duration()
TIME = Time()
