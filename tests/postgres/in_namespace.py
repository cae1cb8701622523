"""Another script, in a network namespace: `in_namespace.py PATH SCRIPT ARGUMENTS…`. The process stays the same one."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

CLONE_NEWNET = 0x40000000


def main() -> None:
    path, *command = sys.argv[1:]
    with Path(path).open("rb") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {path}")
    os.execv(sys.executable, [sys.executable, "-X", "faulthandler", *command])  # noqa: S606 - none is wanted


if __name__ == "__main__":
    main()
