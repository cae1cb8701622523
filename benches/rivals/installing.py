"""Where the rivals are installed: made on demand, in one folder, at the versions that stand beside this file."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
LIMIT = 600.0


def python(folder: Path) -> str:
    """The interpreter of an environment with the rivals that are written for Python."""
    place, wanted = folder / "python", HERE / "requirements.txt"
    interpreter = place / "bin" / "python"
    if _is_there(place, wanted):
        return str(interpreter)
    print(f"installing the rivals for Python into {place}", file=sys.stderr)
    venv.create(place, with_pip=True, clear=True)
    _run([str(interpreter), "-m", "pip", "install", "--quiet", "-r", str(wanted)], place)
    shutil.copy(wanted, place)
    return str(interpreter)


def node(folder: Path) -> tuple[str, str] | None:
    """Node, and Graphile Worker's script beside its packages; nothing where there is no npm."""
    place, wanted, script = folder / "node", HERE / "package.json", HERE / "graphile_worker.mjs"
    npm = shutil.which("npm")
    if npm is None:
        print("no npm: Graphile Worker is left out", file=sys.stderr)
        return None
    if not _is_there(place, wanted):
        print(f"installing the rivals for Node into {place}", file=sys.stderr)
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(wanted, place / "package.json")
        _run([npm, "install", "--no-audit", "--no-fund", "--loglevel=error", "--engine-strict=false"], place)
        (place / "done").write_bytes(wanted.read_bytes())
    shutil.copy(script, place)
    return str(place / "node_modules" / ".bin" / "node"), str(place / script.name)


def _is_there(place: Path, wanted: Path) -> bool:
    done = place / ("done" if wanted.suffix == ".json" else wanted.name)
    return done.is_file() and done.read_bytes() == wanted.read_bytes()


def _run(command: list[str], place: Path) -> None:
    subprocess.run(command, cwd=place, check=True, timeout=LIMIT)  # noqa: S603 - pip and npm
