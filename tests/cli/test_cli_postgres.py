"""The command line on PostgreSQL: `bandog migrate`, and a job's life through the verbs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import psycopg
import pytest
from fix_postgres import as_role
from steps import wait_until

from bandog._cli import looking
from bandog._cli.group import commands

SCHEMA = 'cli "test"'
URL_SECRET = "secret-word"  # noqa: S105 - looked for where it must not be


@pytest.fixture
def bandog(postgres_url: str) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Run a verb on a schema of its own, which is dropped afterwards."""
    environment = {**os.environ, "BANDOG_URL": postgres_url, "BANDOG_SCHEMA": SCHEMA}

    def run(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "bandog", *arguments]
        return subprocess.run(
            command, env={**environment, **changes}, text=True, capture_output=True, timeout=60, check=False
        )

    drop(postgres_url)
    yield run
    drop(postgres_url)


def drop(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(b'DROP SCHEMA IF EXISTS "cli ""test""" CASCADE')


def test_a_schema_is_migrated_by_its_verb_alone(bandog: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    missing = bandog("migrate", "--status")
    assert (missing.returncode, missing.stdout) == (1, f"missing\t-\t{SCHEMA}\n")
    refused = bandog("stats")
    assert refused.returncode == 3
    assert "bandog migrate" in refused.stderr
    made = bandog("migrate", "--json")
    assert (made.returncode, json.loads(made.stdout)["kind"]) == (0, "migrated")
    assert bandog("migrate").stdout.startswith("current\t")
    assert bandog("migrate", "--status").returncode == 0


def test_the_printed_statements_make_the_same_tables(
    bandog: Callable[..., subprocess.CompletedProcess[str]], postgres_url: str
) -> None:
    script = bandog("migrate", "--sql").stdout
    assert bandog("migrate", "--status").returncode == 1
    with psycopg.connect(postgres_url) as connection:
        connection.execute(script.encode())
    assert bandog("migrate", "--status").returncode == 0


def test_uninstalling_takes_a_yes_and_then_nothing_is_left(
    bandog: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    missing = bandog("migrate", "--uninstall", "--yes")
    assert (missing.returncode, missing.stdout) == (1, f"missing\t-\t{SCHEMA}\n")
    bandog("migrate")
    bandog("enqueue", "1", "--job-id", "a")
    refused = bandog("migrate", "--uninstall")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "add --yes if that is meant" in refused.stderr
    assert bandog("get", "a").returncode == 0
    done = bandog("migrate", "--uninstall", "--yes")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"uninstalled\t1\t{SCHEMA}\n", "")
    assert bandog("migrate", "--status").returncode == 1
    bandog("migrate")
    answer = json.loads(bandog("migrate", "--uninstall", "--yes", "--json").stdout)
    assert answer == {"kind": "uninstalled", "version": 1, "schema_is_gone": True}


def test_the_printed_statements_of_uninstalling_do_the_same(
    bandog: Callable[..., subprocess.CompletedProcess[str]], postgres_url: str
) -> None:
    bandog("migrate")
    printed = bandog("migrate", "--uninstall", "--sql")
    assert (printed.returncode, printed.stderr) == (0, "")
    assert bandog("migrate", "--status").returncode == 0
    with psycopg.connect(postgres_url) as connection:
        connection.execute(printed.stdout.encode())
        assert connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (SCHEMA,)).fetchall() == []


def test_a_schema_with_something_else_in_it_stays(
    bandog: Callable[..., subprocess.CompletedProcess[str]], postgres_url: str
) -> None:
    bandog("migrate")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(b'CREATE TABLE "cli ""test""".theirs (n integer)')
    done = bandog("migrate", "--uninstall", "--yes")
    assert (done.returncode, done.stdout) == (0, f"uninstalled\t1\t{SCHEMA}\n")
    assert done.stderr == f"the schema {SCHEMA!r} stays: something else is in it, or it is another role's\n"


def test_a_worker_of_a_role_without_the_grants_fails_at_once_and_with_the_printed_ones_runs(
    bandog: Callable[..., subprocess.CompletedProcess[str]], postgres_url: str
) -> None:
    bandog("migrate")
    bandog("enqueue", "1", "--job-id", "a")
    role = f"bandog cli {os.getpid()}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'DROP ROLE IF EXISTS "{role}"; CREATE ROLE "{role}" LOGIN'.encode())
        try:
            url = as_role(postgres_url, role)
            work = ("worker", "bandog.quickstart:run", "--burst", "-q")
            for kind, told in ((None, "may not read"), ("producer", "may not run"), ("worker", "")):
                if kind is not None:
                    connection.execute(bandog("grants", role, "--as", kind).stdout.encode())
                ended = bandog(*work, BANDOG_URL=url)
                if told:
                    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (3, "", 1)
                    assert told in ended.stderr
                    assert f"bandog grants '{role}' --as worker --schema '{SCHEMA}'" in ended.stderr
            assert ended.returncode == 0, ended.stderr
            assert json.loads(bandog("get", "a", "--json").stdout)["state"] == "settled"
        finally:
            connection.execute(f'DROP OWNED BY "{role}"; DROP ROLE "{role}"'.encode())


def test_an_old_snapshot_is_worth_a_line(
    bandog: Callable[..., subprocess.CompletedProcess[str]],
    postgres_database: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Nobody else is in that database.
    bandog("migrate", BANDOG_URL=postgres_database)
    with psycopg.connect(postgres_database, application_name="nightly report") as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT 1")
        pid = holder.info.backend_pid

        def told() -> list[str]:
            commands.main(["--url", postgres_database, "--schema", SCHEMA, "stats"], standalone_mode=False)
            return capsys.readouterr().err.splitlines()

        assert told() == [], "it is young"
        monkeypatch.setattr(looking, "MINUTE", 0.0)
        wait_until(lambda: any(f"session {pid}" in line for line in told()), "it is the oldest one")
        (line,) = told()
        assert line.startswith(f"session {pid} (nightly report) has kept dead rows from being removed for 0 s, ")
        found = json.loads(bandog("stats", "--json", BANDOG_URL=postgres_database).stdout)["oldest_snapshot"]
        assert (found["kind"], found["holder"]) == ("session", str(pid))
        assert found["age"] > 0
    drop(postgres_database)


def test_a_job_lives_through_the_verbs(bandog: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    assert bandog("migrate").returncode == 0
    assert bandog("enqueue", '{"n": 1}', "--job-id", "a").returncode == 0
    (claim,) = json.loads(bandog("claim", "--json").stdout)["jobs"]
    assert bandog("ack", "a", claim["lease_token"]).returncode == 0
    assert json.loads(bandog("get", "a", "--json").stdout)["outcome"]["kind"] == "completed"
    assert bandog("claim").returncode == 4


def test_a_password_is_shown_nowhere(bandog: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    url = f"postgresql://nobody:{URL_SECRET}@127.0.0.1:1/none?connect_timeout=1"
    ended = bandog("stats", BANDOG_URL=url)
    assert ended.returncode == 3
    assert URL_SECRET not in ended.stdout + ended.stderr
