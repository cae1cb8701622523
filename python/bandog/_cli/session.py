"""One call of the command line: which store it is about, and in which form it answers."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bandog._cli.showing import is_terminal, safe_json, show_fields, show_line, show_table, write
from bandog._url import SqliteLocation, locate
from bandog.errors import CannotOpen
from bandog.queue import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from bandog.queue import Queue

__all__ = ["Session"]


@dataclass(slots=True)
class Session:
    """What was said before the verb, or among its options.

    Attributes:
        url: a path or URL, as :func:`bandog.connect` takes; may hold a password, and is never shown.
        as_json: whether answers are JSON documents.
        schema: where the tables of a PostgreSQL database are; ``None`` for the default.
    """

    url: str | None = None
    as_json: bool = False
    schema: str | None = None

    def store(self) -> str:
        """The path or URL of the store.

        Raises:
            UsageError: none was given.
        """
        if not self.url:
            message = "no store is named: give --url, or set BANDOG_URL, to a path or URL such as jobs.sqlite"
            raise click.UsageError(message, click.get_current_context(silent=True))
        return self.url

    def file(self) -> Path | None:
        """The SQLite file of the store; ``None`` where it is a server.

        Raises:
            InvalidJob: a URL that cannot be understood.
        """
        url = self.store()
        if "://" in url and not url.startswith("sqlite:"):
            return None
        location = locate(url)
        return location.path if isinstance(location, SqliteLocation) else None

    @contextmanager
    def queue(self, *, create: bool = False) -> Generator[Queue]:
        """The open store, closed afterwards.

        Args:
            create: whether a file that is missing is made. Otherwise that is an error: a mistyped path should not
                become a new and empty queue.

        Raises:
            CannotOpen: there is no such file. Others are those of :func:`bandog.connect`.
        """
        file = self.file()
        if file is not None and not create and not file.exists():
            message = f"there is no file {str(file)!r}: look at the path, or make it with `migrate` or `enqueue`"
            raise CannotOpen(message, target=str(file))
        with connect(self.store(), schema=self.schema) as queue:
            yield queue

    def answer(self, document: dict[str, Any], words: Sequence[str]) -> None:
        """Say one thing that was done, as a document or as a line of words."""
        if self.as_json:
            self._document(document)
        else:
            show_line(words)

    def fields(self, document: Any, things: Sequence[Iterable[tuple[str, str]]]) -> None:
        """Show things with all their fields, an empty line between two of them."""
        if self.as_json:
            self._document(document)
            return
        for number, fields in enumerate(things):
            if number:
                write("\n")
            show_fields(fields)

    def table(
        self,
        document: Callable[[], Any],
        columns: Sequence[str],
        rows: Iterable[Sequence[str]],
        numbers: Sequence[str] = (),
    ) -> None:
        """Show many things. An empty table is no line at all, but on a terminal, where it is a heading."""
        if self.as_json:
            self._document(document())
        else:
            show_table(columns, rows, numbers=numbers)

    def note(self, text: str) -> None:
        """Say something to people only: beside a table on a terminal, on standard error elsewhere; never as JSON."""
        if not self.as_json:
            click.echo(text, err=not is_terminal())

    def _document(self, document: Any) -> None:
        write(safe_json(document) + "\n")
