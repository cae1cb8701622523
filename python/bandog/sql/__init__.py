"""Every statement, as the file that holds it. The engine compiles the same files in."""

from __future__ import annotations

from importlib.resources import files

__all__ = ["migrations", "statement"]


def statement(dialect: str, name: str) -> str:
    """The text of one statement, such as ``statement("sqlite", "claim")``.

    Raises:
        FileNotFoundError: there is none of that name.
    """
    return (files(__name__) / dialect / f"{name}.sql").read_text(encoding="utf-8")


def migrations(dialect: str) -> tuple[str, ...]:
    """The migrations of a dialect, in order. The version of a schema is the number of those that it has had."""
    folder = files(__name__) / dialect / "migrations"
    return tuple(
        entry.read_text(encoding="utf-8")
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".sql")
    )
