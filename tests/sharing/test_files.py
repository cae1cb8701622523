"""What is a usable file, and what is refused before a byte of it is touched."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from processes import assert_sound, select

import bandog

# In the main thread, so that a test that takes too long still gives its mounts back.
pytestmark = pytest.mark.timeout(method="signal")


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder, by name and content; None for what is no file."""
    return {entry.name: entry.read_bytes() if entry.is_file() else None for entry in sorted(folder.rglob("*"))}


def assert_refused(path: Path | str, folder: Path, words: str) -> None:
    """The error is typed and says what to do, and nothing in the folder has changed."""
    before = contents(folder)
    with pytest.raises(bandog.CannotOpen, match=words) as caught:
        bandog.connect(path)
    assert isinstance(caught.value, OSError)
    assert contents(folder) == before


def make_queue(path: Path) -> None:
    with bandog.connect(path) as queue:
        queue.enqueue(job_id="early")


def test_a_hard_link_is_refused(tmp_path: Path) -> None:
    path, second = tmp_path / "jobs.sqlite", tmp_path / "second.sqlite"
    make_queue(path)
    second.hardlink_to(path)
    assert_refused(path, tmp_path, "remove one of them")
    assert_refused(second, tmp_path, "remove one of them")
    second.unlink()
    with bandog.connect(path) as queue:
        assert queue.read("early").state == "queued"


def test_a_symbolic_link_is_the_file_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, folder = tmp_path / "real" / "jobs.sqlite", tmp_path / "linked"
    path.parent.mkdir()
    make_queue(path)
    folder.symlink_to(path.parent, target_is_directory=True)
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)
    monkeypatch.chdir(path.parent)
    names = [path, link, folder / "jobs.sqlite", "jobs.sqlite", f"sqlite:///{path}", "../linked/./jobs.sqlite"]
    queues = [bandog.connect(name) for name in names]
    for number, queue in enumerate(queues):
        queue.enqueue(number, job_id=f"job-{number}")
    for queue in queues:
        assert [queue.read(f"job-{number}").payload for number in range(len(names))] == list(range(len(names)))
    for queue in queues:
        assert len(queue.claim(limit=1)) == 1
        queue.close()
    # One log beside the real file, none beside a link.
    assert {entry.name for entry in tmp_path.iterdir()} == {"real", "linked", "link.sqlite"}
    assert select(path, "SELECT count(*) FROM bandog_job") == [(len(names) + 1,)]
    assert_sound(path)


def test_a_dangling_link_is_refused_or_makes_its_target(tmp_path: Path) -> None:
    link = tmp_path / "link.sqlite"
    link.symlink_to(tmp_path / "missing" / "jobs.sqlite")
    with pytest.raises(bandog.CannotOpen):
        bandog.connect(link)
    assert not (tmp_path / "missing").exists()
    link.unlink()
    link.symlink_to(tmp_path / "later.sqlite")
    with bandog.connect(link) as through_link:
        through_link.enqueue(job_id="through-the-link")
        with bandog.connect(tmp_path / "later.sqlite") as direct:
            assert direct.read("through-the-link").state == "queued"
            direct.enqueue(job_id="direct")
            assert through_link.read("direct").state == "queued"
    assert_sound(tmp_path / "later.sqlite")


@pytest.mark.parametrize("name", [":memory:", "", "sqlite:///:memory:", "sqlite:///"])
def test_a_queue_in_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refused(name, tmp_path, "file")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert_refused(tmp_path, tmp_path, "folder")
    assert_refused(f"{tmp_path}/", tmp_path, "folder")


def test_a_missing_folder_is_refused_and_not_made(tmp_path: Path) -> None:
    assert_refused(tmp_path / "missing" / "jobs.sqlite", tmp_path, "create it first")


def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"something")
    assert_refused(tmp_path / "file" / "jobs.sqlite", tmp_path, "unable to open|folder")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"hello", id="short text"),
        pytest.param(b"id,name\n" * 2000, id="long text"),
        pytest.param(random.Random(1).randbytes(100_000), id="noise"),
        pytest.param(b"SQLite format 3\0" + random.Random(2).randbytes(8192), id="noise behind a header"),
    ],
)
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "jobs.sqlite"
    path.write_bytes(content)
    assert_refused(path, tmp_path, "not an SQLite database")


@pytest.mark.parametrize("keep", [5000, 20_000])
def test_a_damaged_database_is_an_error_and_left_alone(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "jobs.sqlite"
    make_queue(path)
    path.write_bytes(path.read_bytes()[:keep])
    before = contents(tmp_path)
    with pytest.raises((bandog.CannotOpen, bandog.StoreFailed), match="malformed"):
        bandog.connect(path)
    assert contents(tmp_path) == before


def test_an_empty_file_becomes_a_queue(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    path.touch()
    make_queue(path)
    assert_sound(path)


@pytest.mark.parametrize("suffix", ["-wal", "-journal", "-shm", "-mj012345678"])
def test_a_name_that_sqlite_keeps_for_itself_is_refused(tmp_path: Path, suffix: str) -> None:
    assert_refused(tmp_path / f"jobs.sqlite{suffix}", tmp_path, "name")


def test_a_read_only_file_is_refused(tmp_path: Path, read_only: Callable[[Path], None]) -> None:
    path = tmp_path / "jobs.sqlite"
    make_queue(path)
    read_only(path)
    with pytest.raises(OSError, match="Read-only"):
        path.open("r+b")
    assert_refused(path, tmp_path, "not writable")


def test_a_read_only_folder_is_refused(tmp_path: Path, read_only: Callable[[Path], None]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "jobs.sqlite"
    make_queue(path)
    read_only(folder)
    assert_refused(path, tmp_path, "writable|unable to open|read-only")
    assert_refused(folder / "new.sqlite", tmp_path, "writable|unable to open|read-only")


@pytest.mark.parametrize("option", ["vfs=unix-none", "nolock=1", "immutable=1", "mode=ro", "cache=shared"])
def test_options_that_change_locking_are_refused(tmp_path: Path, option: str) -> None:
    before = contents(tmp_path)
    with pytest.raises(bandog.InvalidJob, match="not known"):
        bandog.connect(f"sqlite:///{tmp_path}/jobs.sqlite?{option}")
    assert contents(tmp_path) == before


def test_a_file_name_is_never_taken_for_a_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with bandog.connect("file:jobs.sqlite?nolock=1") as queue:
        queue.enqueue(job_id="early")
    assert os.listdir(tmp_path) == ["file:jobs.sqlite?nolock=1"]  # noqa: PTH208 - names as the system has them


def test_names_of_every_kind_work(tmp_path: Path) -> None:
    folder = tmp_path / "wörk shop" / ("deep" * 50) / ("deeper" * 20)
    folder.mkdir(parents=True)
    for name in ["my jobs.sqlite", "jöbs.sqlite", "100%.sqlite", "a?b#c.sqlite", "jobs", "-jobs.sqlite"]:
        path = folder / name
        make_queue(path)
        assert select(path, "SELECT count(*) FROM bandog_job") == [(1,)]


def test_an_applications_file_keeps_its_tables(tmp_path: Path) -> None:
    path = tmp_path / "app.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY, text TEXT)")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO orders VALUES (?, ?)", [(number, "x" * 100) for number in range(1000)])
        connection.execute("COMMIT")
        schema = connection.execute("SELECT * FROM sqlite_master").fetchall()
        make_queue(path)
        connection.execute("INSERT INTO orders VALUES (-1, 'beside an open queue')")
        assert connection.execute("SELECT count(*) FROM orders").fetchone() == (1001,)
        ours = "SELECT * FROM sqlite_master WHERE tbl_name NOT LIKE 'bandog_%' AND name <> 'sqlite_sequence'"
        assert connection.execute(ours).fetchall() == schema
    assert_sound(path)


@pytest.mark.parametrize("newer", [-1, 1, 98])
def test_tables_of_another_version_are_refused_and_left_alone(tmp_path: Path, newer: int) -> None:
    path = tmp_path / "jobs.sqlite"
    make_queue(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        ((version,),) = connection.execute("SELECT max(version) FROM bandog_schema").fetchall()
        connection.execute("DELETE FROM bandog_schema WHERE version >= ?", (version + min(newer, 0),))
        if version + newer:
            connection.execute("INSERT INTO bandog_schema VALUES (?, 0)", (version + newer,))
    before = contents(tmp_path)
    with pytest.raises(bandog.SchemaMismatch, match=f"version {version + newer}"):
        bandog.connect(path)
    assert contents(tmp_path) == before
