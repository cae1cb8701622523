"""The command ``bandog``, also as ``python -m bandog``: looks whether what it needs is installed, then hands over.

The library needs nothing but the interpreter; the command line needs click and rich, which the extra ``cli`` brings.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

REMEDY = "the command line needs {}, which the extra cli brings: python -m pip install 'bandog[cli]'"


def main() -> int:
    """Run the command line.

    Returns:
        The exit code: that of the command, or 2 where the extra ``cli`` is not installed.
    """
    missing = [name for name in ("click", "rich") if find_spec(name) is None]
    if missing:
        print("bandog:", REMEDY.format(" and ".join(missing)), file=sys.stderr)
        return 2
    from bandog.cli import run  # noqa: PLC0415 - only now is it known that it can be imported

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
