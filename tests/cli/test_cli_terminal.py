"""The command line on a terminal: tables, colour, and nothing of a job's text as a control sequence."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from bandog_command import ESCAPE, on_a_terminal

import bandog

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def on_jobs(folder: Path, *arguments: str, **changes: str) -> tuple[int, str]:
    return on_a_terminal(folder, *arguments, BANDOG_URL="jobs.sqlite", **changes)


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    with bandog.connect(tmp_path / "jobs.sqlite") as queue:
        queue.ingest(bandog.Job(job_id="[red]a", queue="mail", payload={"to": "ada \x1b[31m"}))
        queue.fail(queue.claim()[0], "no \x1b]0;title\x07 answer\nat all")
        queue.enqueue(job_id="b", queue="mail")
        queue.enqueue(job_id="c", queue="sms")
    return tmp_path


def test_jobs_are_a_table_with_a_heading_and_colour(jobs: Path) -> None:
    code, shown = on_jobs(jobs, "jobs")
    assert code == 0
    assert f"{ESCAPE}[31mfailed" in shown
    heading, _rule, first, *others = [line for line in COLOUR.sub("", shown).splitlines() if line.strip()]
    assert heading.split() == ["job", "queue", "lane", "state", "attempts", "since", "or", "due", "error"]
    assert first.split()[:5] == ["[red]a", "mail", "default", "failed", "1"]
    # Its error takes a second line.
    assert ["b", "mail", "default", "queued", "0"] in [line.split()[:5] for line in others]


def test_nothing_of_a_job_reaches_the_terminal_as_a_control_sequence(jobs: Path) -> None:
    for arguments in (("jobs",), ("dead",), ("get", "[red]a"), ("claim", "--limit", "9"), ("get", "\x1b]0;title\x07")):
        _code, shown = on_jobs(jobs, *arguments)
        bare = COLOUR.sub("", shown)
        assert ESCAPE not in bare
        assert "\x07" not in bare
    _code, shown = on_jobs(jobs, "get", "[red]a")
    assert r"no \u001b]0;title\u0007 answer\nat all" in COLOUR.sub("", shown)


def test_a_claim_can_be_copied_from_the_terminal(jobs: Path) -> None:
    code, shown = on_jobs(jobs, "claim", "--queue", "mail", COLUMNS="20")
    assert code == 0
    fields = dict(line.split(maxsplit=1) for line in COLOUR.sub("", shown).splitlines())
    with bandog.connect(jobs / "jobs.sqlite") as queue:
        queue.acknowledge((fields["job_id"], fields["lease_token"]))
        assert queue.read("b").state == "settled"


def test_counts_are_two_tables(jobs: Path) -> None:
    code, shown = on_jobs(jobs, "stats")
    lines = [line.split() for line in COLOUR.sub("", shown).splitlines() if line.strip()]
    assert code == 0
    assert ["queue", "queued", "due", "running", "oldest", "due"] in lines
    assert ["outcome", "jobs"] in lines
    assert ["failed", "1"] in lines


def test_an_answer_is_a_line_of_words(jobs: Path) -> None:
    code, shown = on_jobs(jobs, "cancel", "b")
    assert (code, COLOUR.sub("", shown)) == (0, "cancelled b\r\n")
    code, shown = on_jobs(jobs, "jobs", "--limit", "1")
    assert code == 0
    assert COLOUR.sub("", shown).splitlines()[-1].startswith("there are more: --after ")
    code, shown = on_jobs(jobs, "claim", "--queue", "none")
    assert (code, shown) == (4, "no job is due\r\n")


def test_json_is_json_on_a_terminal_too(jobs: Path) -> None:
    code, shown = on_jobs(jobs, "get", "b", "--json")
    assert code == 0
    assert json.loads(shown)["job_id"] == "b"
    assert ESCAPE not in shown


@pytest.mark.parametrize("changes", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_colour_can_be_refused(jobs: Path, changes: dict[str, str]) -> None:
    code, shown = on_jobs(jobs, "cancel", "b", **changes)
    assert code == 0
    assert not re.search(r"\x1b\[3\dm", shown)
    assert COLOUR.sub("", shown) == "cancelled b\r\n"
