"""Where a store is: a path, or a URL with options."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from bandog.errors import InvalidJob

_OPTIONS = ("synchronous", "busy_timeout")


@dataclass(frozen=True, slots=True)
class SqliteLocation:
    """An SQLite file, and the options that its URL gave."""

    path: Path
    options: dict[str, str]


@dataclass(frozen=True, slots=True)
class PostgresLocation:
    """A PostgreSQL database. Its URL may hold a password: it is handed on, and shown to nobody."""

    url: str = field(repr=False)


def locate(url: str | os.PathLike[str]) -> SqliteLocation | PostgresLocation:
    """The store that ``url`` names.

    A path, ``sqlite:///relative.sqlite``, ``sqlite:////absolute.sqlite`` or ``postgresql://…``.

    Raises:
        InvalidJob: for a scheme, host or option that is not known. The URL itself, which may hold a password, is not
            repeated in the message.
    """
    try:
        text = os.fsdecode(url)
    except TypeError:
        message = f"url: must be a path or a URL, not {type(url).__name__}"
        raise InvalidJob(message, field="url") from None
    if "://" not in text:
        return SqliteLocation(Path(text), {})
    if any(character < " " or character == "\x7f" for character in text):
        # urlsplit would drop some of them without a word, and another file be opened.
        message = "url: must not contain control characters; percent-encode them"
        raise InvalidJob(message, field="url")
    if text.startswith(("postgresql://", "postgres://")):
        return PostgresLocation(text)
    try:
        parts = urlsplit(text)
    except ValueError:
        message = "url: cannot be read as a URL; use a path or sqlite:///path"
        raise InvalidJob(message, field="url") from None
    if parts.scheme != "sqlite":
        message = f"url: bandog cannot open {parts.scheme}:// here; use a path, sqlite:///path or postgresql://…"
        raise InvalidJob(message, field="url")
    if parts.netloc or parts.fragment:
        message = (
            "url: an SQLite URL has three slashes and a path, as in sqlite:///jobs.sqlite, or four for an absolute one"
        )
        raise InvalidJob(message, field="url")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    # An allow-list: SQLite's own options could switch off its locks (nolock, immutable) or ours (vfs).
    for name in options:
        if name not in _OPTIONS:
            message = f"url: the option {name!r} is not known; known are {', '.join(_OPTIONS)}"
            raise InvalidJob(message, field="url")
    return SqliteLocation(Path(unquote(parts.path[1:])), options)
