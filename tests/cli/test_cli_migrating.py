"""`bandog migrate` on an SQLite file, whose tables are made when it is first opened."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from bandog_command import command, document, done, on_jobs, one_line, usage_of

import bandog.sql

VERSION = len(bandog.sql.migrations("sqlite"))
NOTE = "nothing to migrate: the tables of a file are made when bandog first opens it\n"


def test_it_makes_the_file_and_then_there_is_nothing_to_do(tmp_path: Path) -> None:
    for _time in ("first", "second"):
        ended = on_jobs(tmp_path, "migrate")
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"current\t{VERSION}\tjobs.sqlite\n", NOTE)
    assert document(tmp_path, "migrate") == {"kind": "current", "version": VERSION, "current": VERSION}
    assert done(tmp_path, "jobs") == ""


def test_the_status_of_a_missing_file_makes_none(tmp_path: Path) -> None:
    ended = on_jobs(tmp_path, "migrate", "--status")
    assert (ended.returncode, ended.stdout) == (1, "missing\tjobs.sqlite\n")
    assert ended.stderr == "it is made, with its tables, when it is first opened to enqueue or migrate\n"
    assert list(tmp_path.iterdir()) == []
    on_jobs(tmp_path, "migrate")
    assert document(tmp_path, "migrate", "--status")["kind"] == "current"


def test_the_statements_make_the_tables(tmp_path: Path) -> None:
    script = done(tmp_path, "migrate", "--sql")
    assert list(tmp_path.iterdir()) == []
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert {"bandog_job", "bandog_ready", "bandog_lease", "bandog_outcome"} <= tables
    assert document(tmp_path, "migrate", "--sql") == {"sql": list(bandog.sql.migrations("sqlite"))}


def test_tables_of_another_version_are_refused_and_left_alone(tmp_path: Path) -> None:
    on_jobs(tmp_path, "migrate")
    with closing(sqlite3.connect(tmp_path / "jobs.sqlite")) as connection, connection:
        connection.execute("UPDATE bandog_schema SET version = version + 1000")
    for arguments in (("migrate",), ("migrate", "--status"), ("jobs",)):
        assert "newer" in one_line(on_jobs(tmp_path, *arguments), 3)


def test_wrong_arguments_print_the_usage_of_the_verb(tmp_path: Path) -> None:
    assert "cannot be given together" in usage_of(on_jobs(tmp_path, "migrate", "--status", "--sql"), "migrate")
    assert "unexpected extra argument" in usage_of(on_jobs(tmp_path, "migrate", "now"), "migrate")
    assert "cannot be given together" in usage_of(on_jobs(tmp_path, "migrate", "--status", "--uninstall"), "migrate")


def test_a_file_is_not_uninstalled(tmp_path: Path) -> None:
    on_jobs(tmp_path, "migrate")
    for more in ([], ["--yes"], ["--sql"]):
        told = usage_of(on_jobs(tmp_path, "migrate", "--uninstall", *more), "migrate")
        assert "an SQLite file is deleted" in told
    assert document(tmp_path, "migrate", "--status")["kind"] == "current"


def test_grants_are_printed_and_no_store_is_asked(tmp_path: Path) -> None:
    ended = command(tmp_path, "grants", 'we"ird', "--as", "producer", "--schema", "My jobs")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "\n".join(bandog.sql.grants("producer", 'we"ird', schema="My jobs"))
    for line in ended.stdout.splitlines():
        assert not line.endswith(";") or line.endswith(' TO "we""ird";') or line == 'TO "we""ird";'
    assert 'GRANT USAGE ON SCHEMA "My jobs" TO' in ended.stdout
    assert document(tmp_path, "grants", "app", "--as", "worker") == {"sql": list(bandog.sql.grants("worker", "app"))}
    for arguments, told in (
        (["app"], "--as"),
        (["app", "--as", "owner"], "'observer', 'producer', 'worker'"),
        (["", "--as", "worker"], "role"),
        (["x" * 64, "--as", "worker"], "role"),
        (["app", "--as", "worker", "--schema", "a$b"], "schema"),
    ):
        assert told in usage_of(command(tmp_path, "grants", *arguments), "grants")
    assert list(tmp_path.iterdir()) == []
