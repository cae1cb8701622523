r"""How things are shown: JSON for scripts, tables on a terminal, plain lines elsewhere.

What comes out of a queue was put in by anybody. Nothing of it reaches a terminal as a control sequence: characters that
are not printable are written as JSON writes them (``\u001b``), in every form of output.
"""

from __future__ import annotations

import errno
import json
import sys
from datetime import UTC, datetime
from io import RawIOBase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console, RenderableType

__all__ = ["compact", "is_terminal", "safe", "safe_json", "show_fields", "show_line", "show_table", "stamp", "write"]

_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}

_COLOURS = {
    "completed": "green",
    "admitted": "green",
    "running": "cyan",
    "failed": "red",
    "interrupted": "red",
    "outcome_unknown": "yellow",
    "cancelled": "yellow",
}


def safe(text: str) -> str:
    """A text whose characters are all printable: the others are escaped, as in a JSON string."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if ord(character) <= 0xFFFF:  # noqa: PLR2004 - the end of the basic plane
        return f"\\u{ord(character):04x}"
    units = character.encode("utf-16-be").hex()
    return f"\\u{units[:4]}\\u{units[4:]}"


def compact(value: Any) -> str:
    """A JSON value as a text that fits on one line, and is still JSON."""
    return safe(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def safe_json(value: Any) -> str:
    """A document for scripts: one line of ASCII."""
    return json.dumps(value).replace("\x7f", "\\u007f")


def stamp(moment: datetime) -> str:
    """A time as ISO 8601 in UTC, as in ``2026-01-01T00:00:00.000000Z``. Sorts by itself."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def is_terminal() -> bool:
    """Whether somebody watches standard output."""
    return sys.stdout is not None and sys.stdout.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def write(text: str) -> None:
    """Write to standard output.

    Raises:
        OSError: it is closed or full, or (``BrokenPipeError``) its reader is gone.
    """
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - it is where it was closed (>&-)
        raise OSError(errno.EBADF, "standard output is closed")
    raw = getattr(sys.stdout, "buffer", None)
    if not isinstance(raw, RawIOBase):
        sys.stdout.write(text)
        return
    # With PYTHONUNBUFFERED there is no layer that goes on after a short write: the rest would be lost without a word.
    rest = memoryview(text.encode(sys.stdout.encoding, "backslashreplace"))
    while rest:
        rest = rest[raw.write(rest) or 0 :]


def show_line(words: Sequence[str]) -> None:
    """One answer: words in a row, with tabs between them where nobody watches."""
    if not is_terminal():
        write("\t".join(map(safe, words)) + "\n")
        return
    from rich.text import Text  # noqa: PLC0415 - takes longer to import than most verbs to run

    first, *others = words
    line = Text.assemble((safe(first), _COLOURS.get(first, "bold")), *(f" {safe(word)}" for word in others))
    _render(line, soft_wrap=True)


def show_fields(fields: Iterable[tuple[str, str]]) -> None:
    """One thing: a line per field, its name and its value."""
    fields = list(fields)
    if not is_terminal():
        write("".join(f"{safe(name)}\t{safe(value)}\n" for name, value in fields))
        return
    from rich.text import Text  # noqa: PLC0415 - as above

    width = max(len(name) for name, _value in fields)
    # Not a table: a folded token or id could not be copied.
    lines = (
        Text.assemble((safe(name).ljust(width), "bold"), "  ", (safe(value), _COLOURS.get(value, "none")))
        for name, value in fields
    )
    _render(Text("\n").join(lines), soft_wrap=True)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[str] = ()) -> None:
    """Many things: a table with a heading, or, where nobody watches, lines of tab-separated values without one.

    Args:
        columns: their names.
        rows: one value per column.
        numbers: which columns are aligned to the right.
    """
    if not is_terminal():
        write("".join("\t".join(map(safe, row)) + "\n" for row in rows))
        return
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    rows = list(rows)
    # Room is scarce: a column without a value leaves it to the others.
    kept = [place for place in range(len(columns)) if not rows or any(row[place] for row in rows)]
    table = Table(box=SIMPLE_HEAD)
    for column in (columns[place] for place in kept):
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(safe(row[place]), style=_COLOURS.get(row[place], "")) for place in kept))
    _render(table)


def _render(what: RenderableType, *, soft_wrap: bool = False) -> None:
    """Have rich make the text, and write it as everything is written, so that a failure is met in one place."""
    from rich.console import Console  # noqa: PLC0415 - as above

    console: Console = Console(markup=False, highlight=False, emoji=False)
    with console.capture() as captured:
        console.print(what, soft_wrap=soft_wrap)
    write(captured.get())
