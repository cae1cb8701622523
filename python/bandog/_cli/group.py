"""The group ``bandog``: its options, its help, and its verbs."""

from __future__ import annotations

import click
from click.core import ParameterSource

from bandog._cli.exits import EXIT_CODES, INTERRUPTED, OK
from bandog._cli.looking import dead, get, jobs, stats
from bandog._cli.managing import cancel, fail_lane, purge, requeue
from bandog._cli.migrating import grants, migrate
from bandog._cli.producing import enqueue
from bandog._cli.pulling import ack, claim, fail
from bandog._cli.session import Session
from bandog._cli.verb import TellsUsage, common_options
from bandog._cli.worker import worker
from bandog._native import core

__all__ = ["commands"]


class Verbs(TellsUsage, click.Group):
    """A group that lists its verbs in the order in which a job meets them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Their names, as they were added."""
        return list(self.commands)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """The exit codes, as a list."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()])


@click.group(
    "bandog",
    cls=Verbs,
    params=[*common_options(envvar="BANDOG_URL")],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(core.__version__, prog_name="bandog")
@click.pass_context
def commands(context: click.Context) -> None:
    """A durable job queue.

    The store is named by --url or BANDOG_URL, as a path or a URL. Answers are tables on a terminal, lines of
    tab-separated values elsewhere, and with --json one JSON document on one line, which is what scripts should read.
    Arguments that begin with `-` (an id, a negative number) stand after `--`.
    """
    context.ensure_object(Session)


@click.command("demo", cls=TellsUsage)
@click.argument("file", type=click.Path(dir_okay=False), default="demo.sqlite")
@click.pass_context
def demo(context: click.Context, /, *, file: str) -> int:
    """Run a few hundred jobs of every kind.

    A table at the end tells what happened and why.

    FILE is the database (demo.sqlite where none is given), created where it is missing. Run it again to see that an
    identical replay creates nothing; stop it with Ctrl-C and run it again to see it go on.
    """
    said = context.parent.get_parameter_source if context.parent else context.get_parameter_source
    if ParameterSource.COMMANDLINE in {said("url"), said("json")}:
        message = "demo has a file of its own and tables: it takes neither --url nor --json"
        raise click.UsageError(message, context)
    from bandog.demo import demo as run_demo  # noqa: PLC0415 - it loads rich, which no other verb needs at its start

    return OK if run_demo(file) else INTERRUPTED


for command in (
    *(enqueue, worker, claim, ack, fail, get, jobs, dead, stats),
    *(requeue, cancel, fail_lane, purge, migrate, grants, demo),
):
    commands.add_command(command)
