"""Exit codes and errors: whatever happens, one line on standard error says what to do, and the code what it was.

Wrong arguments print the usage of their verb before that line. There is no traceback, unless ``BANDOG_TRACEBACK`` is
set; a broken pipe and Ctrl-C end without a word.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING

import click
from click.shell_completion import shell_complete

from bandog._cli.showing import safe
from bandog.errors import BandogError, ForkedQueue, InvalidJob, NativeModuleMissing, QueueClosed, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ABANDONED",
    "BROKEN_PIPE",
    "EXIT_CODES",
    "INPUT_OUTPUT",
    "INTERRUPTED",
    "JOBS_FAILED",
    "NOTHING_DUE",
    "OK",
    "REFUSED",
    "STORE",
    "TERMINATED",
    "UNEXPECTED",
    "USAGE",
    "Refused",
    "carry_out",
]

OK = 0
REFUSED = 1
USAGE = 2
STORE = 3
NOTHING_DUE = 4
JOBS_FAILED = 5
ABANDONED = 6
UNEXPECTED = 70
INPUT_OUTPUT = 74
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143

EXIT_CODES = {
    OK: "it did what it says",
    REFUSED: "refused, or the job is not there; nothing was changed",
    USAGE: "wrong arguments, or the extra cli is not installed",
    STORE: "the store cannot be opened, reached or written",
    NOTHING_DUE: "claim: no job is due",
    JOBS_FAILED: "worker --burst: all that was due is done, and some jobs failed for good",
    ABANDONED: "worker: stopped, but some jobs did not stop; they are recovered once their leases end",
    UNEXPECTED: "an error that should not happen; please report it",
    INPUT_OUTPUT: "standard input or output failed",
    INTERRUPTED: "stopped by Ctrl-C; worker: by the second one, or before a burst was done",
    BROKEN_PIPE: "the reader of standard output went away",
    TERMINATED: "worker: as 130, by SIGTERM",
}


class Refused(click.ClickException):
    """The queue said no, without an error of its own: it has answered already, and one line says why."""

    exit_code = REFUSED


def carry_out(commands: click.Group, arguments: Sequence[str]) -> int:
    """Run one command of a group.

    Args:
        commands: the group.
        arguments: those of the command line, without the name of the program.

    Returns:
        The exit code.
    """
    try:
        # An id may have characters that the terminal's encoding has not.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        code = _invoke(commands, arguments)
        if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison] - it is where it was closed (>&-)
            sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - each has its code, and none a traceback
        return _code(error)
    return code


def _invoke(commands: click.Group, arguments: Sequence[str]) -> int:
    # Not `commands.main`, which answers a broken pipe and Ctrl-C in its own way.
    instruction = os.environ.get("_BANDOG_COMPLETE")
    if instruction:
        return shell_complete(commands, {}, "bandog", "_BANDOG_COMPLETE", instruction)
    with commands.make_context("bandog", list(arguments)) as context:
        code: object = commands.invoke(context)
    return code if isinstance(code, int) else OK


def _code(error: BaseException) -> int:
    """The exit code of what was raised, told on standard error where somebody wants to know."""
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case KeyboardInterrupt() | click.Abort():
            code = INTERRUPTED
        case click.UsageError():
            _tell_usage(error)
            code = USAGE
        case click.ClickException():
            _tell(error.format_message())
            code = error.exit_code
        case BandogError():
            _tell(error.message)
            code = _code_of_ours(error)
        case _ if _is_broken_pipe(error):
            code = BROKEN_PIPE
        case OSError():
            _tell(f"input or output failed: {error}; the command may have been carried out: look before repeating it")
            code = INPUT_OUTPUT
        case _:
            _tell(f"unexpected {type(error).__name__}: {error}; set BANDOG_TRACEBACK=1 to see where, and report it")
            code = UNEXPECTED
    if os.environ.get("BANDOG_TRACEBACK"):
        import traceback  # noqa: PLC0415 - seldom wanted

        with suppress(OSError):
            traceback.print_exception(error)
    _give_up_output()
    return code


def _code_of_ours(error: BandogError) -> int:
    if isinstance(error, (StoreError, QueueClosed, ForkedQueue, NativeModuleMissing)):
        return STORE
    return USAGE if isinstance(error, InvalidJob) else REFUSED


def _is_broken_pipe(error: BaseException) -> bool:
    # Rich answers one with SystemExit.
    return isinstance(error, BrokenPipeError) or (
        isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError)
    )


def _give_up_output() -> None:
    """Flush standard output, or else forget what is left: the interpreter would complain of it at its end."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        with suppress(OSError, ValueError, AttributeError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


def _tell_usage(error: click.UsageError) -> None:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        _tell_lines([error.message])
        return
    message = error.format_message().rstrip(".")
    if isinstance(error, click.NoSuchOption):
        message += "; an argument that begins with - stands after --"
    if error.ctx is None:
        _tell(message)
        return
    _tell_lines([error.ctx.get_usage()])
    _tell(f"{message} (more: {error.ctx.command_path} --help)")


def _tell(message: str) -> None:
    one_line = " ".join(line.strip() for line in message.split("\n"))
    _tell_lines([f"bandog: {safe(one_line)}"])


def _tell_lines(lines: Sequence[str]) -> None:
    with suppress(OSError, ValueError, AttributeError):  # standard error may be closed, too
        for line in lines:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
