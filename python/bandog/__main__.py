"""The command ``bandog``, also as ``python -m bandog``. See :mod:`bandog.cli`."""

from __future__ import annotations

import sys

from bandog.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
