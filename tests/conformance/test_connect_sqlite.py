"""Connect: what is opened, created and refused. SQLite only."""

import os
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

import bandog
from bandog import CannotOpen, InvalidJob, SchemaMismatch, StoreBusy, StoreError
from bandog.sql import migrations


def opens(url, **options):
    with bandog.connect(url, **options) as queue:
        queue.enqueue(1, job_id="a")
        assert queue.read("a").state == "queued"


def tables(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.sqlite"


@pytest.mark.parametrize(
    "form",
    [str, Path, os.fsencode, lambda path: f"sqlite:///{path}", lambda path: f"sqlite:///{path}?synchronous=normal"],
    ids=["str", "Path", "bytes", "url", "url with options"],
)
def test_a_file_may_be_named_in_every_form(path, form):
    opens(form(path))
    assert path.is_file()
    with bandog.connect(path) as queue:
        assert queue.read("a").state == "queued"


def test_a_relative_path_is_in_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opens("plain.sqlite")
    opens("sqlite:///url.sqlite")
    assert {entry.name for entry in tmp_path.glob("*.sqlite")} == {"plain.sqlite", "url.sqlite"}


@pytest.mark.parametrize("name", ["with space", "100%", "a?b", "a#b", "é🐕", "a%20b", "x;y", "-dash", "q" * 200])
def test_odd_names_work_as_paths(tmp_path, name):
    opens(tmp_path / name)
    assert (tmp_path / name).is_file()


def test_a_url_is_percent_decoded(tmp_path):
    opens(f"sqlite:///{tmp_path}/a%20b%3Fc")
    assert (tmp_path / "a b?c").is_file()


def test_a_fresh_file_gets_the_tables_of_the_newest_version(path):
    opens(path)
    with closing(sqlite3.connect(path)) as connection:
        versions = connection.execute("SELECT version FROM bandog_schema ORDER BY version").fetchall()
    assert versions == [(version,) for version in range(1, len(migrations("sqlite")) + 1)]


def test_the_engine_makes_the_tables_of_the_files(path, tmp_path):
    opens(path)
    with closing(sqlite3.connect(tmp_path / "by hand.sqlite")) as connection:
        for migration in migrations("sqlite"):
            connection.executescript(migration)
    assert tables(path) == tables(tmp_path / "by hand.sqlite")


def test_a_file_of_another_application_gets_our_tables_beside_its_own(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE customer (name TEXT)")
        connection.execute("INSERT INTO customer VALUES ('Ada')")
    opens(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM customer").fetchall() == [("Ada",)]
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_opening_again_changes_no_table(path):
    opens(path)
    before = tables(path)
    with bandog.connect(path):
        pass
    assert tables(path) == before


def test_an_empty_file_is_a_fresh_one(path):
    path.touch()
    opens(path)


@pytest.mark.parametrize("version", [2, 99])
def test_tables_of_a_newer_version_are_refused_and_left_alone(path, version):
    opens(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO bandog_schema (version, applied_at) VALUES (?, 0)", (version,))
    before = tables(path)
    with pytest.raises(SchemaMismatch) as caught:
        bandog.connect(path)
    assert isinstance(caught.value, StoreError)
    assert str(version) in str(caught.value)
    assert "newer version of bandog" in str(caught.value)
    assert caught.value.target == str(path)
    assert tables(path) == before


def test_tables_of_an_older_version_are_refused_and_left_alone(path):
    opens(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM bandog_schema")
    before = tables(path)
    with pytest.raises(SchemaMismatch, match="migrate"):
        bandog.connect(path)
    assert tables(path) == before


def refused(target, *words, **options):
    with pytest.raises(CannotOpen) as caught:
        bandog.connect(target, **options)
    assert isinstance(caught.value, OSError)
    assert caught.value.target
    for word in words:
        assert word in str(caught.value)


def test_what_is_no_database_is_refused_and_left_alone(path):
    content = b"This is a text file, and a long one: " * 200
    path.write_bytes(content)
    refused(path, "not an SQLite database", str(path))
    assert path.read_bytes() == content
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_folder_is_refused(tmp_path):
    refused(tmp_path, "folder")


def test_a_missing_folder_is_refused_and_not_made(tmp_path):
    refused(tmp_path / "no" / "jobs.sqlite", str(tmp_path / "no"))
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("target", [":memory:", "", "sqlite:///:memory:", "sqlite:///"])
def test_a_store_without_a_file_is_refused(tmp_path, monkeypatch, target):
    monkeypatch.chdir(tmp_path)
    refused(target, "file")
    assert list(tmp_path.iterdir()) == []


def test_a_hard_link_is_refused(path, tmp_path):
    opens(path)
    (tmp_path / "second.sqlite").hardlink_to(path)
    refused(path, "hard link")
    refused(tmp_path / "second.sqlite", "hard link")


def test_a_symbolic_link_leads_to_the_one_file(path, tmp_path):
    opens(path)
    (tmp_path / "link.sqlite").symlink_to(path)
    with bandog.connect(tmp_path / "link.sqlite") as linked, bandog.connect(path) as queue:
        linked.enqueue(job_id="through the link")
        assert queue.read("through the link").state == "queued"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://ada:hunter2@db.example.org/jobs",
        "sqlite://ada:hunter2@db.example.org/jobs",
        "sqlite://hunter2/jobs.sqlite",
        "sqlite:///jobs.sqlite#hunter2",
        "sqlite:///jobs.sqlite?password=hunter2",
        "sqlite:///jobs.sqlite?vfs=none&x=hunter2",
        "sqlite:///jobs.sqlite?busy_timeout=hunter2",
        "sqlite://[hunter2/jobs.sqlite",
        "://hunter2",
    ],
)
def test_a_url_that_is_not_allowed_is_refused_without_repeating_it(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidJob) as caught:
        bandog.connect(url)
    assert caught.value.field == "url"
    assert "hunter2" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "option", ["nolock=1", "immutable=1", "vfs=unix-none", "mode=memory", "cache=shared", "psow=0"]
)
def test_options_that_switch_locks_off_are_refused(path, option):
    with pytest.raises(InvalidJob, match=option.split("=", maxsplit=1)[0]):
        bandog.connect(f"sqlite:///{path}?{option}")
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("synchronous", "off"),
        ("synchronous", "FULL"),
        ("synchronous", 1),
        ("busy_timeout", -1),
        ("busy_timeout", float("nan")),
        ("busy_timeout", True),
        ("busy_timeout", "5"),
        ("payload_limit", -1),
        ("payload_limit", True),
        ("payload_limit", 1.5),
        ("payload_limit", "1"),
        ("payload_limit", None),
        ("allow_network_filesystem", "no"),
        ("clock", "now"),
        ("url", 5),
        ("url", None),
    ],
    ids=repr,
)
def test_an_argument_that_is_not_allowed_is_named_and_no_file_is_made(path, name, value):
    arguments = {"url": path, name: value}
    with pytest.raises(InvalidJob) as caught:
        bandog.connect(arguments.pop("url"), **arguments)
    assert caught.value.field == name
    assert not path.exists()


@pytest.mark.parametrize("synchronous", ["off", "extra", ""])
def test_a_durability_that_is_not_offered_is_refused_in_a_url(path, synchronous):
    with pytest.raises(InvalidJob) as caught:
        bandog.connect(f"sqlite:///{path}?synchronous={synchronous}")
    assert caught.value.field == "synchronous"
    assert not path.exists()


def test_an_argument_stands_above_the_option_of_the_url(path):
    opens(f"sqlite:///{path}?busy_timeout=0.1&synchronous=off", busy_timeout=timedelta(seconds=1), synchronous="full")


def test_a_lock_that_another_connection_keeps_is_waited_for_as_long_as_asked(path):
    with bandog.connect(path, busy_timeout=0.05) as queue, closing(sqlite3.connect(path)) as blocker:
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy) as caught:
            queue.enqueue(job_id="a")
        assert caught.value.waited >= 0.05
        assert caught.value.target == str(path)
        # Reading needs no lock.
        assert not queue.has_pending_work()
        blocker.rollback()
        assert queue.enqueue(job_id="a").kind == "admitted"


def test_every_commit_reaches_the_disk_unless_the_user_asks_for_less(path):
    """What the engine sets is not seen from another connection; that the log is used, and stays, is."""
    opens(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_bundled_library_has_the_fix_of_the_log(path):
    opens(path)
    version = tuple(int(part) for part in bandog._native.core.sqlite_version().split("."))
    assert version >= (3, 51, 3)
