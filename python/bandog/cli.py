"""The command line: one click group, a command per verb. Needs the extra ``cli``; :mod:`bandog.__main__` starts it.

Exit codes of every command: 0, it did what it says; 1, the queue cannot be used, and standard error says why; 2, wrong
arguments; 130, stopped by Ctrl-C.
"""

from __future__ import annotations

import click

import bandog
from bandog.demo import demo

__all__ = ["commands", "run"]

INTERRUPTED = 130


@click.group("bandog", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(bandog.__version__, prog_name="bandog")
def commands() -> None:
    """A durable job queue on one file."""


@commands.command("demo")
@click.argument("file", type=click.Path(dir_okay=False), default="demo.sqlite")
def _demo(file: str) -> int:
    """Run a few hundred jobs of every kind, and tell what happened and why.

    FILE is the database (demo.sqlite where none is given), created where it is missing. Run it again to see that an
    identical replay creates nothing; stop it with Ctrl-C and run it again to see it go on.
    """
    return 0 if demo(file) else INTERRUPTED


def run(arguments: list[str]) -> int:
    """Run one command.

    Args:
        arguments: those of the command line, without the name of the program.

    Returns:
        The exit code.
    """
    try:
        code: object = commands.main(arguments, prog_name="bandog", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except bandog.BandogError as error:
        click.echo(f"bandog: {error}", err=True)
        return 1
    return code if isinstance(code, int) else 0
