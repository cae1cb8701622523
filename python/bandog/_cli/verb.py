"""What all verbs have in common: the options of the group, and the usage that wrong arguments print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bandog._cli.session import Session
from bandog.errors import InvalidJob

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TellsUsage", "Verb", "common_options", "verb"]


def _remember_url(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Session).url = value


def _remember_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 - by click
    if value:
        context.ensure_object(Session).as_json = True


def _remember_schema(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Session).schema = value


def common_options(*, envvar: str | None = None) -> list[click.Option]:
    """``--url``, ``--json`` and ``--schema``, which may stand before the verb and after it.

    Args:
        envvar: an environment variable in place of ``--url``.
    """
    return [
        click.Option(
            ["--url"],
            envvar=envvar,
            metavar="STORE",
            expose_value=False,
            callback=_remember_url,
            help="The store: a path, or a URL. Default: BANDOG_URL.",
        ),
        click.Option(
            ["--json"],
            is_flag=True,
            expose_value=False,
            callback=_remember_json,
            help="Answer with one JSON document on one line.",
        ),
        click.Option(
            ["--schema"],
            envvar="BANDOG_SCHEMA" if envvar else None,
            metavar="NAME",
            expose_value=False,
            callback=_remember_schema,
            help="The schema of a PostgreSQL database. Default: BANDOG_SCHEMA, or bandog.",
        ),
    ]


class TellsUsage(click.Command):
    """A command whose every wrong argument prints its usage."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Some errors of the parser do not say which command they are about."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise


class Verb(TellsUsage):
    """A command on a store."""

    def __init__(self, name: str | None, *, params: list[click.Parameter] | None = None, **settings: Any) -> None:
        """See :class:`click.Command`."""
        super().__init__(name, params=[*(params or ()), *common_options()], **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """What no store may accept was typed here, and is answered as other wrong arguments are."""
        try:
            return super().invoke(ctx)
        except InvalidJob as error:
            raise click.UsageError(error.message, ctx) from error


def verb(name: str) -> Callable[[Callable[..., Any]], Verb]:
    """Make a function a verb, as ``click.command`` does."""
    return click.command(name, cls=Verb)
