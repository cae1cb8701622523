"""A caller of every kind, and the tools of the crash tests."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "crash"))

from callers import KINDS, Caller
from server_callers import KINDS as ON_SERVERS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "caller" in metafunc.fixturenames:
        metafunc.parametrize("caller", [*KINDS, *ON_SERVERS], indirect=True)


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where there is such a place: what survives a power cut is not what these tests are about."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own in it
    made = Path(tempfile.mkdtemp(prefix="bandog-", dir=memory if os.access(memory, os.W_OK) else None))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "jobs.sqlite"


@pytest.fixture
def caller(request: pytest.FixtureRequest, path: Path) -> Iterator[Caller]:
    kind = request.param
    made = KINDS[kind](path) if kind in KINDS else ON_SERVERS[kind](request.getfixturevalue("postgres_server"))
    yield made
    made.stop()
