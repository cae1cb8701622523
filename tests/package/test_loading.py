"""What `import bandog` does: little, and with a clear word where it cannot."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest


def python(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


BLOCKED = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "bandog._core":
            raise ModuleNotFoundError("No module named 'bandog._core'", name=name)

sys.meta_path.insert(0, Absent())
try:
    import bandog
except ImportError as error:
    # The class cannot be imported either, so it is told by its name.
    print(type(error).__module__, type(error).__name__)
    print(type(error.__cause__).__name__)
    print(error)
"""


def test_without_the_compiled_module_the_import_says_what_to_do(tmp_path: Path) -> None:
    where, cause, message = python(BLOCKED, tmp_path).splitlines()
    assert where == "bandog.errors NativeModuleMissing"
    assert cause in {"ModuleNotFoundError", "ImportError"}
    assert "bandog._core" in message
    assert "pip install" in message


def test_importing_starts_no_thread(tmp_path: Path) -> None:
    if not Path("/proc/self/task").is_dir():
        pytest.skip("native threads are counted through /proc")
    program = "import os, threading, bandog; print(len(os.listdir('/proc/self/task')), threading.active_count())"
    assert python(program, tmp_path).split() == ["1", "1"]


def test_importing_loads_nothing_heavy(tmp_path: Path) -> None:
    # Each costs tens of milliseconds, or (sqlite3) brings a second SQLite into a process that has no use for it.
    heavy = (
        "asyncio",
        "concurrent.futures",
        "multiprocessing",
        "sqlite3",
        "unittest",
        "importlib.resources",
    )
    program = (
        "import sys; before = set(sys.modules); import bandog\n"
        f"print([name for name in {heavy!r} if name in sys.modules and name not in before])"
    )
    assert python(program, tmp_path).strip() == "[]"


def test_importing_opens_no_file_and_makes_none(tmp_path: Path) -> None:
    program = "import os, bandog; print(len([fd for fd in os.listdir('/proc/self/fd') if int(fd) > 2]))"
    if Path("/proc/self/fd").is_dir():
        # One: the descriptor of the listing itself.
        assert python(program, tmp_path).strip() == "1"
    else:
        python("import bandog", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_only_one_module_loads_the_compiled_one() -> None:
    # So that its absence is explained in one place, and a package without it can be built of the same sources.
    loaders = []
    for source in (entry for entry in files("bandog").iterdir() if entry.name.endswith(".py")):
        tree = ast.parse(source.read_text(encoding="utf-8"))
        for_checkers = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if id(node) in for_checkers:
                continue
            if isinstance(node, ast.ImportFrom):
                names = {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            else:
                continue
            if "bandog._core" in names:
                loaders.append(source.name)
    assert loaders == ["_native.py"]
