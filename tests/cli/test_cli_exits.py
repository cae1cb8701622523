"""Exit codes, the store's name, and what is said when something fails: one line, no traceback, no secret."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from bandog_command import arguments_of, command, done, environment, on_jobs, one_line, usage_of

import bandog

VERBS = {
    "enqueue": ["1"],
    "worker": ["bandog.quickstart:run", "--burst"],
    "claim": [],
    "ack": ["a", "token"],
    "fail": ["a", "token", "why"],
    "get": ["a"],
    "jobs": [],
    "dead": [],
    "stats": [],
    "requeue": ["a"],
    "cancel": ["a"],
    "fail-lane": ["mail", "acme", "why"],
    "purge": ["--older-than", "0"],
    "migrate": [],
    "grants": ["role", "--as", "worker"],
}
# One of them prints what somebody else is to do, and asks no store.
VERBS_ON_A_STORE = [verb for verb in VERBS if verb != "grants"]


def test_help_names_every_verb_and_every_exit_code(tmp_path: Path) -> None:
    ended = command(tmp_path, "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    verbs, codes = ended.stdout.split("Exit codes:")
    assert re.findall(r"^  ([a-z-]+)  ", verbs.split("Commands:")[1], flags=re.MULTILINE) == [*VERBS, "demo"]
    assert re.findall(r"^  (\d+) ", codes, flags=re.MULTILINE) == [*"0123456", "70", "74", "130", "141", "143"]
    assert "BANDOG_URL" in ended.stdout
    assert command(tmp_path, "-h").stdout == ended.stdout
    assert command(tmp_path, "get", "--help").stdout.startswith("Usage: bandog get [OPTIONS] JOB_ID\n")


@pytest.mark.parametrize("verb", VERBS_ON_A_STORE)
def test_a_verb_without_a_store_prints_its_usage(tmp_path: Path, verb: str) -> None:
    for changes in ({}, {"BANDOG_URL": ""}):
        told = usage_of(command(tmp_path, verb, *VERBS[verb], **changes), verb)
        assert "give --url, or set BANDOG_URL" in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", [verb for verb in VERBS_ON_A_STORE if verb not in {"enqueue", "worker", "migrate"}])
def test_a_file_that_is_missing_is_not_made_by_a_mistyped_path(tmp_path: Path, verb: str) -> None:
    told = one_line(on_jobs(tmp_path, verb, *VERBS[verb]), 3)
    assert told.startswith("bandog: there is no file 'jobs.sqlite'")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", VERBS_ON_A_STORE)
def test_a_file_that_cannot_be_used_is_told_in_one_line(tmp_path: Path, verb: str) -> None:
    content = "no database, but more than a hundred bytes of something else. " * 4
    (tmp_path / "jobs.sqlite").write_text(content)
    assert "jobs.sqlite" in one_line(on_jobs(tmp_path, verb, *VERBS[verb]), 3)
    assert (tmp_path / "jobs.sqlite").read_text() == content


def test_a_store_that_stays_busy(tmp_path: Path) -> None:
    done(tmp_path, "enqueue", "1", "--id", "a")
    with closing(sqlite3.connect(tmp_path / "jobs.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        told = one_line(command(tmp_path, "enqueue", "2", "--url", "sqlite:///jobs.sqlite?busy_timeout=0.1"), 3)
    assert "lock" in told


@pytest.mark.parametrize(
    "url",
    [
        "mysql://ada:hunter2@db.example/jobs",
        "no-such://ada:hunter2@db.example/jobs",
        "sqlite://ada:hunter2@host/jobs.sqlite",
        "sqlite:///jobs.sqlite?password=hunter2",
        "sqlite:///jobs.sqlite?busy_timeout=hunter2",
        "http://[hunter2",
    ],
)
def test_a_url_that_cannot_be_used_is_a_wrong_argument_and_not_repeated(tmp_path: Path, url: str) -> None:
    for ended in (command(tmp_path, "enqueue", "1", "--url", url), command(tmp_path, "enqueue", "1", BANDOG_URL=url)):
        assert "url: " in usage_of(ended, "enqueue")
        assert "hunter2" not in ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("no-such",), "No such command 'no-such'"),
        (("--no-such", "jobs"), "No such option '--no-such'"),
        (("--url",), "Option '--url' requires an argument"),
        (("--json=1", "jobs"), "Option '--json' does not take a value"),
    ],
    ids=lambda value: " ".join(value)[:20],
)
def test_wrong_arguments_of_the_group_print_its_usage(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    assert told in usage_of(command(tmp_path, *arguments), "")


def test_no_argument_at_all_prints_the_help_on_standard_error(tmp_path: Path) -> None:
    ended = command(tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == command(tmp_path, "--help").stdout


def run_with(folder: Path, *arguments: str, unbuffered: str = "", **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(  # type: ignore[call-overload]
        arguments_of(*arguments),
        cwd=folder,
        env=environment(BANDOG_URL="jobs.sqlite", PYTHONUNBUFFERED=unbuffered),
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Path]:
    with bandog.connect(tmp_path / "jobs.sqlite") as queue:
        queue.ingest_many(bandog.Job(payload="x" * 100) for _ in range(2000))
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [("jobs", "--limit", "2000"), ("jobs", "--json"), ("stats",), ("--help",), ("get", "--help"), ("demo", "d.sqlite")],
    ids=" ".join,
)
def test_a_reader_that_goes_away_ends_it_without_a_word(jobs: Path, arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with run_with(jobs, *arguments, stdout=writing) as process:
        os.close(writing)
        assert process.communicate(timeout=100)[1] == ""
    assert process.returncode == 141


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_in_the_middle(jobs: Path, unbuffered: str) -> None:
    with run_with(jobs, "jobs", "--limit", "2000", stdout=subprocess.PIPE, unbuffered=unbuffered) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the full device is Linux's")
@pytest.mark.parametrize("arguments", [("enqueue", "1"), ("jobs",), ("--version",)], ids=" ".join)
def test_an_answer_that_cannot_be_written_is_no_success(jobs: Path, arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full, run_with(jobs, *arguments, stdout=full) as process:
        told = process.communicate(timeout=100)[1]
    assert process.returncode == 74
    assert told.startswith("bandog: input or output failed: ")
    assert "No space left" in told
    assert "look before repeating it" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(("closed", "code"), [("<&-", 2), (">&-", 74), ("2>&-", 0), (">&- 2>&-", 74)])
def test_closed_streams_end_in_an_exit_code(tmp_path: Path, closed: str, code: int) -> None:
    line = f'"{sys.executable}" -m bandog enqueue - {closed}'
    ended = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=tmp_path,
        env=environment(BANDOG_URL="jobs.sqlite"),
        input="1",
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == code
    assert "Traceback" not in ended.stderr


def test_ctrl_c_ends_it_without_a_word(tmp_path: Path) -> None:
    with run_with(tmp_path, "enqueue", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        # Once all of this has been taken out of the pipe, somebody is reading it.
        process.stdin.write("[" + " " * 2_000_000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=100)
    assert (process.returncode, *told) == (130, "", "")
    assert list(tmp_path.iterdir()) == []


BROKEN = """
import sys
import bandog._cli.session
def connect(url, schema=None):
    raise {error}
bandog._cli.session.connect = connect
from bandog.cli import run
sys.exit(run(["--url", "jobs.sqlite", "enqueue", "1"]))
"""


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        ("ZeroDivisionError('two\\nlines')", 70, "unexpected ZeroDivisionError: two lines; set BANDOG_TRACEBACK=1"),
        ("SystemExit(5)", 70, "unexpected SystemExit: 5"),
        ("bandog.StorageFull('no room', target='x')", 3, "no room"),
        ("bandog.RuntimeConflict('another', target='x')", 3, "another"),
        ("bandog.QueueClosed('closed')", 3, "closed"),
        ("bandog.JobConflict('taken', job_id='a', difference='payload')", 1, "taken"),
        ("bandog.BandogError('other')", 1, "other"),
        ("MemoryError()", 70, "unexpected MemoryError"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_every_error_has_its_code_and_one_line(tmp_path: Path, error: str, code: int, told: str) -> None:
    def run(**changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", BROKEN.format(error=error)],
            cwd=tmp_path,
            env=environment(**changes),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    assert told in one_line(run(), code)
    traced = run(BANDOG_TRACEBACK="1")
    assert traced.returncode == code
    assert "Traceback" in traced.stderr


def test_a_verb_that_needs_no_table_loads_no_rich(tmp_path: Path) -> None:
    program = (
        "import sys; from bandog.cli import run; code = run(['--url', 'jobs.sqlite', 'enqueue', '1', '--id', 'a'])\n"
        "print(code, {'rich', 'asyncio', 'sqlite3'} & set(sys.modules))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stdout == "admitted\ta\n0 set()\n"


def test_shell_completion_offers_the_verbs(tmp_path: Path) -> None:
    ended = command(tmp_path, _BANDOG_COMPLETE="bash_complete", COMP_WORDS="bandog re", COMP_CWORD="1")
    assert ended.stdout == "plain,requeue\n"


def test_the_codes_are_those_of_the_help() -> None:
    from bandog._cli import exits  # noqa: PLC0415 - needs click

    named: dict[str, int] = {
        name: value for name, value in vars(exits).items() if name.isupper() and type(value) is int
    }
    assert sorted(named.values()) == sorted(exits.EXIT_CODES)
