"""Every statement, as the file that holds it. The engine compiles the same files in."""

from __future__ import annotations

import re
from importlib.resources import files

__all__ = ["KINDS", "grants", "in_schema", "migrations", "statement", "uninstall"]

KINDS = ("observer", "producer", "worker")
"""Of roles in a PostgreSQL database, each with what the one before it may do."""

LONGEST_NAME = 63
"""Bytes that PostgreSQL does not cut."""


def statement(dialect: str, name: str) -> str:
    """The text of one statement, such as ``statement("sqlite", "claim")``.

    Raises:
        FileNotFoundError: there is none of that name.
    """
    return (files(__name__) / dialect / f"{name}.sql").read_text(encoding="utf-8")


def migrations(dialect: str, *, schema: str | None = None) -> tuple[str, ...]:
    """The migrations of a dialect, in order. The version of a schema is the number of those that it has had.

    Args:
        dialect: ``"sqlite"`` or ``"postgres"``.
        schema: for PostgreSQL, the schema to make them for, which exists already; ``None`` (the default) as they are
            written, for the schema ``bandog``.
    """
    folder = files(__name__) / dialect / "migrations"
    return tuple(
        text if schema is None else in_schema(text, schema)
        for text in (
            entry.read_text(encoding="utf-8")
            for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
            if entry.name.endswith(".sql")
        )
    )


def grants(kind: str, role: str, *, schema: str = "bandog") -> tuple[str, ...]:
    """What a schema's owner grants to a role of a PostgreSQL database, so that it can do its part and nothing else.

    Granting twice is allowed. A migration that makes tables is followed by these statements again.

    Args:
        kind: ``"observer"`` (looks at jobs), ``"producer"`` (ingests too) or ``"worker"`` (everything but migrating).
        role: the role's name, as it is: it is quoted here.
        schema: the schema. Default ``"bandog"``.

    Raises:
        ValueError: an unknown kind, or a name that no role or schema may have.
    """
    if kind not in KINDS:
        message = f"kind: must be one of {', '.join(KINDS)}"
        raise ValueError(message)
    if not _is_name(role):
        message = f"role: must have 1 to {LONGEST_NAME} bytes, and no control characters"
        raise ValueError(message)
    return tuple(
        _replaced(_administration(f"grant_{each}"), {"bandog": _schema(schema), '"grantee"': _quoted(role)})
        for each in KINDS[: KINDS.index(kind) + 1]
    )


def uninstall(*, schema: str = "bandog") -> tuple[str, ...]:
    """What removes bandog from a PostgreSQL schema, jobs included, and the schema where nothing else is in it.

    For other tools: run them in one transaction, as :func:`bandog.migrating.uninstall` does.
    """
    return (in_schema(_administration("uninstall"), schema),)


def _administration(name: str) -> str:
    """Several statements, for the owner of a schema."""
    return statement("postgres", f"administration/{name}")


def in_schema(text: str, schema: str) -> str:
    """A statement for PostgreSQL, with another schema in the place of ``bandog``, quoted.

    Raises:
        ValueError: a name that no schema may have, or that could not be quoted everywhere.
    """
    return _replaced(text, {"bandog": _schema(schema)})


def _schema(name: str) -> str:
    """As it stands in SQL. Our own goes unquoted, so that statements read as they are written."""
    if not _is_name(name) or "$" in name:
        message = f"schema: must have 1 to {LONGEST_NAME} bytes, no control characters and no dollar sign"
        raise ValueError(message)
    return name if name == "bandog" else _quoted(name)


def _is_name(name: str) -> bool:
    return 0 < len(name.encode()) <= LONGEST_NAME and name.isprintable()


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _replaced(text: str, names: dict[str, str]) -> str:
    """In one pass: what a name brings in is not looked at again."""
    return re.sub(r'(?<=SCHEMA )bandog\b|\bbandog(?=\.)|"grantee"', lambda found: names.get(found[0], found[0]), text)
