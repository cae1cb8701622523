"""What is installed: the files and the metadata of the distribution, and the SQLite that it brings."""

from __future__ import annotations

import json
from importlib import metadata
from importlib.resources import files
from pathlib import Path

import pytest

import bandog
from bandog import _core

REPOSITORY = Path(__file__).parents[2]
SOURCES = REPOSITORY / "python" / "bandog"


@pytest.fixture
def distribution() -> metadata.Distribution:
    return metadata.distribution("bandog")


@pytest.fixture
def installed(distribution: metadata.Distribution) -> set[str]:
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        pytest.skip("an editable install lists no files; .ci/run installs a wheel")
    return {str(file) for file in distribution.files or () if "__pycache__" not in str(file)}


def test_the_package_holds_its_types_and_every_statement(installed: set[str]) -> None:
    expected = {
        f"bandog/{source.relative_to(SOURCES).as_posix()}"
        for source in SOURCES.rglob("*")
        if source.suffix in {".py", ".pyi", ".sql"} or source.name == "py.typed"
    }
    assert {"bandog/py.typed", "bandog/_core.pyi", "bandog/sql/sqlite/claim.sql"} <= expected
    assert expected <= installed


def test_the_package_holds_one_compiled_module_for_every_interpreter_from_3_11(installed: set[str]) -> None:
    compiled = [file for file in installed if file.endswith((".so", ".pyd", ".dylib"))]
    assert len(compiled) == 1
    assert compiled[0] in {"bandog/_core.abi3.so", "bandog/_core.pyd"}


def test_the_package_holds_nothing_of_the_repository_but_itself(installed: set[str]) -> None:
    # The command lies outside: ../../../bin/bandog.
    roots = {file.split("/", 1)[0] for file in installed if not file.startswith("..")}
    assert roots == {"bandog", f"bandog-{bandog.__version__}.dist-info"}
    assert not [file for file in installed if file.endswith((".rs", ".toml", ".lock")) or "/test_" in file]


def test_the_licence_travels_with_the_package(installed: set[str], distribution: metadata.Distribution) -> None:
    (licence,) = [file for file in installed if file.endswith("/LICENSE")]
    text = Path(str(distribution.locate_file(licence))).read_text(encoding="utf-8")
    assert text == (REPOSITORY / "LICENSE").read_text(encoding="utf-8")


def test_the_metadata_promises_what_the_readme_does(distribution: metadata.Distribution) -> None:
    assert distribution.version == bandog.__version__ == _core.__version__
    assert distribution.metadata["Requires-Python"] == ">=3.11"
    assert distribution.metadata["License-Expression"] == "MIT"
    assert "Typing :: Typed" in distribution.metadata.get_all("Classifier", [])
    # Nothing is needed at run time: whatever is listed belongs to an extra.
    required = distribution.requires or []
    assert distribution.metadata.get_all("Provides-Extra") == ["cli"]
    assert [line for line in required if not line.endswith("extra == 'cli'")] == []
    assert {line.split(">", 1)[0] for line in required} == {"click", "rich"}


def test_the_command_is_installed(distribution: metadata.Distribution) -> None:
    (command,) = distribution.entry_points.select(group="console_scripts")
    assert (command.name, command.value) == ("bandog", "bandog.__main__:main")


def test_the_types_are_found_through_the_package() -> None:
    assert (files("bandog") / "py.typed").is_file()
    assert (files("bandog") / "_core.pyi").is_file()


def test_the_sqlite_that_is_compiled_in_has_the_fix_for_the_wal_reset_race() -> None:
    # Up to 3.51.2, a checkpoint that races a reset of the log can lose committed pages. A refreshed lock file could
    # bring such a version back unseen.
    assert tuple(int(part) for part in _core.sqlite_version().split(".")) >= (3, 51, 3)
