"""`bandog get`, `jobs`, `dead` and `stats`: lines, JSON, and ids of every kind (C36)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bandog_command import document, done, on_jobs, one_line, usage_of

import bandog


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """A folder with jobs in every state in `jobs.sqlite`."""
    with bandog.connect(tmp_path / "jobs.sqlite") as queue:
        queue.ingest_many([bandog.Job(job_id=job_id, queue="mail", payload=job_id) for job_id in "abcde"])
        queue.ingest(bandog.Job(job_id="later", queue="sms", lane="acme", delay=3600))
        done_one, failed, unknown, _running = queue.claim("w-1", limit=4)
        queue.acknowledge(done_one, {"sent": True})
        queue.fail(failed, "two\nlines")
        queue.outcome_unknown(unknown, ["timeout"])
    return tmp_path


def rows(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def test_get_tells_everything(jobs: Path) -> None:
    assert rows(done(jobs, "get", "b"))[:3] == [["job_id", "b"], ["state", "settled"], ["outcome", "failed"]]
    fields = dict(rows(done(jobs, "get", "b")))
    assert (fields["reason"], fields["error"], fields["payload"]) == ("two\\nlines", "two\\nlines", '"b"')
    found = document(jobs, "get", "c")
    assert found["outcome"] == {"kind": "outcome_unknown", "evidence": ["timeout"]}
    with bandog.connect(jobs / "jobs.sqlite") as queue:
        record = queue.read("c")
    for name, value in found.items():
        there: Any = getattr(record, name)
        if name.endswith("_at") and there is not None:
            there = there.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if name != "outcome":
            assert value == there, name


def test_jobs_are_lines_in_order_of_admission(jobs: Path) -> None:
    found = rows(done(jobs, "jobs"))
    assert [row[:5] for row in found] == [
        ["a", "mail", "default", "completed", "1"],
        ["b", "mail", "default", "failed", "1"],
        ["c", "mail", "default", "outcome_unknown", "1"],
        ["d", "mail", "default", "running", "1"],
        ["e", "mail", "default", "queued", "0"],
        ["later", "sms", "acme", "queued", "0"],
    ]
    assert [row[6] for row in found] == ["", "two\\nlines", "", "", "", ""]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["--state", "queued"], ["e", "later"]),
        (["--state", "running"], ["d"]),
        (["--outcome", "failed"], ["b"]),
        (["--queue", "sms"], ["later"]),
        (["--lane", "acme"], ["later"]),
        (["--queue", "none"], []),
    ],
    ids=" ".join,
)
def test_jobs_are_filtered(jobs: Path, filters: list[str], expected: list[str]) -> None:
    found = document(jobs, "jobs", *filters)
    assert ([job["job_id"] for job in found["jobs"]], found["next"]) == (expected, None)


def test_pages_go_on_where_the_one_before_ended(jobs: Path) -> None:
    first = document(jobs, "jobs", "--limit", "4")
    second = document(jobs, "jobs", "--limit", "4", "--after", first["next"])
    assert [job["job_id"] for page in (first, second) for job in page["jobs"]] == [*"abcde", "later"]
    assert second["next"] is None
    ended = on_jobs(jobs, "jobs", "--limit", "4")
    assert (ended.returncode, ended.stderr) == (0, f"there are more: --after {first['next']}\n")


def test_dead_letters(jobs: Path) -> None:
    assert [row[0] for row in rows(done(jobs, "dead"))] == ["b"]
    assert document(jobs, "dead", "--queue", "sms") == {"jobs": [], "next": None}
    assert document(jobs, "dead")["jobs"][0]["error"] == "two\nlines"


def test_stats_count_by_queue_and_by_outcome(jobs: Path) -> None:
    found = document(jobs, "stats")
    oldest = found["queues"]["mail"].pop("oldest_due")
    assert oldest.endswith("Z")
    assert found == {
        "queues": {
            "mail": {"queued": 1, "due": 1, "running": 1},
            "sms": {"queued": 1, "due": 0, "running": 0, "oldest_due": None},
        },
        "outcomes": {"completed": 1, "failed": 1, "cancelled": 0, "outcome_unknown": 1, "interrupted": 0},
        "bound": 10_000,
        "oldest_snapshot": None,
    }
    lines = rows(done(jobs, "stats"))
    assert ["queue", "mail", "1", "1", "1", oldest] in lines
    assert ["outcome", "failed", "1"] in lines
    assert ["outcome", "failed", "1+"] in rows(done(jobs, "stats", "--bound", "1"))


def test_a_job_that_is_not_there(jobs: Path) -> None:
    assert "there is no job 'z'" in one_line(on_jobs(jobs, "get", "z"), 1)
    assert "there is no job ''" in one_line(on_jobs(jobs, "get", ""), 1)
    assert one_line(on_jobs(jobs, "get", "z", "--json"), 1)


def test_an_empty_list_is_no_line(jobs: Path) -> None:
    assert done(jobs, "jobs", "--queue", "none") == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["get"], "Missing argument 'JOB_ID'"),
        (["get", "a", "b"], "unexpected extra argument"),
        (["get", "-x"], "stands after --"),
        (["jobs", "a"], "unexpected extra argument"),
        (["jobs", "--state", "done"], "'done' is not one of"),
        (["jobs", "--limit", "0"], "limit"),
        (["jobs", "--after", "x"], "after"),
        (["dead", "--limit", "many"], "is not a valid integer"),
        (["stats", "--bound", "0"], "bound"),
    ],
    ids=lambda value: " ".join(value)[:40],
)
def test_wrong_arguments_print_the_usage_of_the_verb(jobs: Path, arguments: list[str], told: str) -> None:
    assert told in usage_of(on_jobs(jobs, *arguments), arguments[0])


IDS = [
    "-x",
    "--help",
    "a:b",
    "a/b",
    "../x",
    "%2F",
    "a b",
    " a ",
    "0",
    "'\"`$(id)",
    "é",
    "e\u0301",
    "🐶",
    "A",
    "a\\b",
    "[red]a[/red]",
    ":dog:",
    "x" * 255,
]


@pytest.mark.parametrize("job_id", IDS, ids=lambda job_id: ascii(job_id)[:20])
def test_an_id_of_any_printable_characters_works_everywhere(tmp_path: Path, job_id: str) -> None:
    assert done(tmp_path, "enqueue", "1", "--id", job_id) == f"admitted\t{job_id}\n"
    assert rows(done(tmp_path, "jobs"))[0][0] == job_id
    assert rows(done(tmp_path, "get", "--", job_id))[0] == ["job_id", job_id]
    claimed, token, *_rest = done(tmp_path, "claim").split("\t")
    assert claimed == job_id
    assert done(tmp_path, "fail", "--", job_id, token, "why") == f"failed\t{job_id}\n"
    assert done(tmp_path, "requeue", "--", job_id) == f"requeued\t{job_id}\n"
    assert done(tmp_path, "cancel", "--", job_id) == f"cancelled\t{job_id}\n"
    assert document(tmp_path, "jobs")["jobs"][0]["job_id"] == job_id


# A right-to-left override, a line separator, an invisible joiner: allowed in ids, and not in what is shown.
@pytest.mark.parametrize("job_id", ["a\u202eb", "a\u2028b", "a\u200db"], ids=ascii)
def test_an_id_that_would_disturb_a_terminal_is_escaped(tmp_path: Path, job_id: str) -> None:
    shown = json.dumps(job_id)[1:-1]
    assert done(tmp_path, "enqueue", "1", "--id", job_id) == f"admitted\t{shown}\n"
    assert done(tmp_path, "jobs").startswith(f"{shown}\t")
    assert document(tmp_path, "get", job_id)["job_id"] == job_id


HOSTILE = "\x1b]0;title\x07\x1b[31mred\r\n\x9b31m\x7f"


def test_control_sequences_of_payloads_errors_and_arguments_reach_no_terminal(tmp_path: Path) -> None:
    with bandog.connect(tmp_path / "jobs.sqlite") as queue:
        queue.ingest(bandog.Job(job_id="a", payload={HOSTILE: HOSTILE}))
        queue.fail(queue.claim()[0], HOSTILE)
    calls = [
        *(("get", "a"), ("jobs",), ("dead",), ("get", "a", "--json"), ("get", HOSTILE), ("no" + HOSTILE,)),
        *(("get", "a", HOSTILE), ("jobs", "--" + HOSTILE), ("jobs", "--state", HOSTILE), ("enqueue", HOSTILE)),
        *(("enqueue", "1", "--id", HOSTILE), ("enqueue", "@" + HOSTILE), ("--url", HOSTILE, "jobs")),
    ]
    for arguments in calls:
        ended = on_jobs(tmp_path, *arguments)
        told = ended.stdout + ended.stderr
        assert told
        assert not set(told) & set(HOSTILE) - set("title0;red31m[]\n"), arguments


def test_an_ascii_terminal_gets_escapes_and_no_error(tmp_path: Path) -> None:
    done(tmp_path, "enqueue", '"é"', "--id", "é🐶")
    ended = on_jobs(tmp_path, "get", "é🐶", LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="1")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("job_id\t\\xe9\\U0001f436\n")
