"""The entry point of the command line: looks whether what it needs is installed, then hands over to ``bandog._cli``.

The library needs nothing but the interpreter; the command line needs click and rich, which the extra ``cli`` brings.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

__all__ = ["main", "run"]

REMEDY = "the command line needs {}, which the extra cli brings: python -m pip install 'bandog[cli]'"
USAGE = 2
INTERRUPTED = 130


def run(arguments: list[str]) -> int:
    """Run one command.

    Args:
        arguments: those of the command line, without the name of the program.

    Returns:
        The exit code; ``bandog --help`` tells what each means. It is 2 where the extra ``cli`` is not installed.
    """
    missing = [name for name in ("click", "rich") if find_spec(name) is None]
    if missing:
        sys.stderr.write(f"bandog: {REMEDY.format(' and '.join(missing))}\n")
        return USAGE
    try:
        # Only now is it known that it can be imported.
        from bandog._cli.exits import carry_out  # noqa: PLC0415
        from bandog._cli.group import commands  # noqa: PLC0415
    except KeyboardInterrupt:
        return INTERRUPTED
    return carry_out(commands, arguments)


def main() -> int:
    """Run the command that the program was started with, and return its exit code."""
    return run(sys.argv[1:])
