"""Fixtures of the crash tests: both folders have a `conftest`, and only one of them can be imported."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any


def _module() -> Any:
    path = Path(__file__).parent.parent / "crash" / "conftest.py"
    specification = importlib.util.spec_from_file_location("conftest_of_crash", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


small_disk = _module().small_disk
