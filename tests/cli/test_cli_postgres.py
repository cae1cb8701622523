"""The command line on PostgreSQL: `bandog migrate`, and a job's life through the verbs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import psycopg
import pytest

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
