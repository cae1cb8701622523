"""The text of a statement, as the caller's driver wants it.

The files number their parameters (``?1``, ``?2``), which not every driver can bind: each occurrence becomes a plain
placeholder, and the parameters are given in the order of these.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from bandog.sql import statement

__all__ = ["FORMAT", "QMARK", "prepared"]

QMARK: Final = "?"
FORMAT: Final = "%s"

_NUMBERED = re.compile(r"[?$](\d+)")


@cache
def prepared(dialect: str, name: str, placeholder: str) -> tuple[str, tuple[int, ...]]:
    """A statement with plain placeholders, and which parameter stands at each of them, from 0.

    The comments on top are left out: they mention parameters by number.
    """
    lines = [line for line in statement(dialect, name).splitlines() if not line.startswith("--")]
    text = "\n".join(lines)
    if placeholder == FORMAT:
        text = text.replace("%", "%%")
    order = tuple(int(number) - 1 for number in _NUMBERED.findall(text))
    return _NUMBERED.sub(placeholder, text), order
