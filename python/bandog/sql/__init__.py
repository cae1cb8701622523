"""Every statement, as the file that holds it. The engine compiles the same files in."""

from __future__ import annotations

from importlib.resources import files

__all__ = ["in_schema", "migrations", "statement"]


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


def in_schema(text: str, schema: str) -> str:
    """A statement for PostgreSQL, with another schema in the place of ``bandog``, quoted.

    Raises:
        ValueError: a name that no schema may have, or that could not be quoted everywhere.
    """
    if not 0 < len(schema.encode()) <= 63 or "$" in schema or not schema.isprintable():  # noqa: PLR2004 - PostgreSQL's
        message = "schema: must have 1 to 63 bytes, no control characters and no dollar sign"
        raise ValueError(message)
    quoted = schema.replace('"', '""')
    return text if schema == "bandog" else text.replace("bandog.", f'"{quoted}".')
