"""What README shows: the first job, run twice; the example; the commands."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bandog

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")

FIRST = """\
ingest: admitted
running report-1 attempt 1 {'reportId': 'monthly-1'}
tick:   settled completed
read:   report-1 settled completed
"""
SECOND = """\
ingest: duplicate
tick:   idle
read:   report-1 settled completed
"""


def quickstart(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "bandog.quickstart", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def test_the_second_run_finds_the_job_done(tmp_path: Path) -> None:
    for expected in (FIRST, SECOND, SECOND):
        done = quickstart(tmp_path, "jobs.sqlite")
        assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


def test_the_file_has_a_default_name(tmp_path: Path) -> None:
    assert quickstart(tmp_path).stdout == FIRST
    assert (tmp_path / "jobs.sqlite").is_file()


@pytest.mark.parametrize("arguments", [("--help",), ("-x",), ("one.sqlite", "two.sqlite")], ids=" ".join)
def test_wrong_arguments_are_told_and_touch_nothing(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = quickstart(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "usage: python -m bandog.quickstart [FILE]\n"
    assert list(tmp_path.iterdir()) == []


def test_readme_shows_both_runs_as_they_are() -> None:
    shown = blocks("text")
    assert FIRST in shown
    assert SECOND in shown


def test_readme_s_first_job_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    program = next(block for block in blocks("python") if "tick()" in block)
    exec(compile(program, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102 - our own page
    assert capsys.readouterr().out == "welcome-42 1 {'to': 'ada@example.org'}\nsettled completed\n"
    with bandog.connect(tmp_path / "jobs.sqlite") as queue:
        assert queue.has_pending_work() is False


def test_ci_runs_the_commands_that_readme_names() -> None:
    script = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8")
    first, tests = [line for line in "".join(blocks("sh")).splitlines() if line.startswith("python3 -m venv")]
    assert "'.[cli]'" in first
    assert first.endswith("/bandog demo")
    assert "bandog demo" in script
    assert "bandog.quickstart" in script
    assert "pytest" in tests
    assert tests in script


def test_what_readme_names_is_there() -> None:
    named = set(re.findall(r"`((?:tests|python|benches|rust|\.github)/[\w/.-]*)`", README))
    assert len(named) > 10
    assert [name for name in sorted(named) if not (REPOSITORY / name).exists()] == []


def test_what_is_not_there_yet_is_listed_and_what_is_there_is_not() -> None:
    (section,) = re.findall(r"^## What is not there yet\n(.*?)^## ", README, flags=re.MULTILINE | re.DOTALL)
    is_there = "connection" in inspect.signature(bandog.Queue.ingest).parameters
    assert ("`connection=`" in section) is not is_there, "README's list and Queue.ingest differ about connection="
    assert "encrypted" not in section
    with pytest.raises(bandog.CannotOpen, match="refused"):  # by the port, where nobody listens
        bandog.connect("postgresql://127.0.0.1:1/jobs?sslmode=require")
    named = set(re.findall(r"`(\w+)", section)) - {"connection"}
    assert not named & {*dir(bandog), *dir(bandog.Queue)}, "they are there: take them out of README's list"


def test_every_name_of_the_two_designs_is_there_or_marked_as_still_to_come() -> None:
    (section,) = re.findall(r"^## Names of the two designs\n(.*?)^## ", README, flags=re.MULTILINE | re.DOTALL)
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    ours = " ".join(row[-1] for row in rows)
    called = {name.split(".")[-1] for name in re.findall(r"([\w.]+)\(", ours)}
    public = {*dir(bandog), *dir(bandog.Queue), *dir(bandog.Watchdog)}
    assert called
    assert called <= public, "ours are names that are there"
    assert "still to come" in ours
    for name in ("cancel", "failLane", "purge", "hasPendingWork", "ingest", "tick", "read", "isAlive", "wake"):
        assert name in section
    for name in ("enqueue", "claim", "acknowledge", "fail", "deadLetters", "requeue", "get", "close"):
        assert f"{name}(" in section
