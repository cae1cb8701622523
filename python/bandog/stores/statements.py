"""The text of a statement, and its values, as the caller's driver wants them.

The files number their parameters (``?1``, ``$1``), which not every driver can bind: each occurrence becomes a plain
placeholder, and the parameters are given in the order of these. Arrays become literals there, which every driver sends
as they are, whatever it was told to make of lists; the statements for PostgreSQL cast each parameter to its type.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import cache
from typing import Any, Final

from bandog.sql import in_schema, statement

__all__ = ["FORMAT", "NUMBERED", "QMARK", "array", "prepared"]

QMARK: Final = "?"
FORMAT: Final = "%s"
NUMBERED: Final = "$"

_PARAMETER = re.compile(r"[?$](\d+)")


@cache
def prepared(dialect: str, name: str, placeholder: str, schema: str | None = None) -> tuple[str, tuple[int, ...]]:
    """A statement with a driver's placeholders, and which parameter stands at each of them, from 0.

    The comments on top are left out: they mention parameters by number.
    """
    lines = [line for line in statement(dialect, name).splitlines() if not line.startswith("--")]
    text = "\n".join(lines)
    order = tuple(int(number) - 1 for number in _PARAMETER.findall(text))
    if placeholder == NUMBERED:
        order = tuple(range(len(set(order))))
    else:
        if placeholder == FORMAT:
            text = text.replace("%", "%%")
        text = _PARAMETER.sub(placeholder, text)
    if schema is not None:
        # Last: what a schema is called is no parameter.
        text = in_schema(text, schema.replace("%", "%%") if placeholder == FORMAT else schema)
    return text, order


def array(values: list[Any]) -> str:
    """A list as PostgreSQL reads an array."""
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, datetime):
        return f'"{value.isoformat()}"'
    return repr(value)
