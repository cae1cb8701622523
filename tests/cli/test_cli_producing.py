"""`bandog enqueue`: what it stores, what it answers, and what it refuses."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bandog_command import command, document, done, on_jobs, one_line, usage_of

import bandog


def test_a_job_is_stored_and_a_replay_creates_nothing(tmp_path: Path) -> None:
    assert done(tmp_path, "enqueue", '{"to": "ada"}', "--job-id", "welcome-42") == "admitted\twelcome-42\n"
    assert done(tmp_path, "enqueue", '{ "to":"ada" }', "--id", "welcome-42") == "duplicate\twelcome-42\n"
    with bandog.connect(tmp_path / "jobs.sqlite") as queue:
        assert queue.read("welcome-42").payload == {"to": "ada"}
        assert len(queue.jobs()) == 1


def test_every_field_of_a_job_can_be_given(tmp_path: Path) -> None:
    answer = document(
        tmp_path,
        *("enqueue", "[1]", "--queue", "mail", "--lane", "acme", "--priority", "-3", "--max-attempts", "5"),
        *("--max-recoveries", "2", "--timeout", "1.5m", "--backoff-base", "2s", "--backoff-cap", "1h"),
        *("--backoff-jitter", "0.5", "--at", "2020-12-24T18:00:00+01:00", "--id", "a"),
    )
    assert (answer["kind"], answer["job_id"]) == ("admitted", "a")
    job = answer["job"]
    assert [job[name] for name in ("queue", "lane", "priority", "max_attempts", "max_recoveries")] == [
        *("mail", "acme", -3, 5, 2),
    ]
    assert job["payload"] == [1]
    assert job["available_at"] == "2020-12-24T17:00:00.000000Z"
    with bandog.connect(tmp_path / "jobs.sqlite") as queue:
        (claim,) = queue.claim()
        assert claim.timeout == 90
        due = queue.fail(claim, "why").available_at
        assert due is not None
        # A base of 2 s, of which up to half is taken away.
        assert timedelta(seconds=0.5) < due - datetime.now(UTC) < timedelta(seconds=2.1)


def test_a_delay_counts_from_now(tmp_path: Path) -> None:
    job = document(tmp_path, "enqueue", "null", "--delay", "1h30m")["job"]
    waits = datetime.fromisoformat(job["available_at"]) - datetime.now(UTC)
    assert timedelta(minutes=88) < waits <= timedelta(minutes=90)
    assert job["job_id"], "one was made"


@pytest.mark.parametrize("text", ["-5", "null", '"text"', "1.0", '{"a": {"é": [true]}}', " [1]\n"])
def test_any_json_value_is_a_payload(tmp_path: Path, text: str) -> None:
    done(tmp_path, "enqueue", "--id", "a", "--", text)
    with bandog.connect(tmp_path / "jobs.sqlite") as queue:
        payload = queue.read("a").payload
        assert (payload, type(payload)) == (json.loads(text), type(json.loads(text)))


def test_a_payload_comes_from_standard_input_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "payload.json").write_text('{"from": "a file, é"}', encoding="utf-8")
    done(tmp_path, "enqueue", "-", "--id", "a", stdin='{"from":\n"standard input, é"}\n')
    done(tmp_path, "enqueue", "@payload.json", "--id", "b")
    with bandog.connect(tmp_path / "jobs.sqlite") as queue:
        assert queue.read("a").payload == {"from": "standard input, é"}
        assert queue.read("b").payload == {"from": "a file, é"}


WRONG = [
    ([], "Missing argument 'PAYLOAD'"),
    (["1", "2"], "unexpected extra argument"),
    (["{"], "payload at $: not valid JSON"),
    (["'single'"], "not valid JSON"),
    (["NaN"], "NaN is not JSON"),
    (['{"a": 1, "a": 2}'], "payload at $.a: the object has two members of this key"),
    (["-"], "not valid JSON"),  # standard input is empty
    (["@missing.json"], "cannot be read: [Errno 2] No such file"),
    (["-5"], "an argument that begins with - stands after --"),
    (["1", "--no-such"], "No such option '--no-such'"),
    (["1", "--priority", "high"], "'high' is not a valid integer"),
    (["1", "--priority", "99999999999"], "priority"),
    (["1", "--id", ""], "job_id: must not be empty"),
    (["1", "--id", "a\nb"], "job_id: must not contain control characters"),
    (["1", "--id", "a" * 256], "job_id: must have at most 255 characters"),
    (["1", "--delay", "soon"], "'soon' is no duration"),
    (["1", "--delay", "nan"], "delay: must be a finite number"),
    (["1", "--delay", "1h", "--at", "2030-01-01T00:00:00Z"], "available_at"),
    (["1", "--at", "2030-01-01T00:00:00"], "is no time with an offset"),
    (["1", "--at", "tomorrow"], "is no time with an offset"),
    (["1", "--backoff-base", "2h"], "backoff"),
]


@pytest.mark.parametrize(("arguments", "told"), WRONG, ids=lambda value: " ".join(value)[:30])
def test_wrong_arguments_print_the_usage_and_store_nothing(tmp_path: Path, arguments: list[str], told: str) -> None:
    assert told in usage_of(on_jobs(tmp_path, "enqueue", *arguments), "enqueue")
    if (tmp_path / "jobs.sqlite").exists():
        with bandog.connect(tmp_path / "jobs.sqlite") as queue:
            assert not queue.has_pending_work()


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b'"\xe9"')
    assert "not UTF-8" in usage_of(on_jobs(tmp_path, "enqueue", "@latin"), "enqueue")


def test_other_content_under_the_same_id_is_refused(tmp_path: Path) -> None:
    done(tmp_path, "enqueue", "1", "--id", "a")
    told = one_line(on_jobs(tmp_path, "enqueue", "2", "--id", "a"), 1)
    assert told.startswith("bandog: job 'a' is already stored with another payload")
    assert document(tmp_path, "get", "a")["payload"] == 1


def test_a_full_lane_refuses(tmp_path: Path) -> None:
    with bandog.connect(tmp_path / "jobs.sqlite") as queue:
        queue.set_lane_limit("mail", "acme", 0)
    told = one_line(on_jobs(tmp_path, "enqueue", "1", "--queue", "mail", "--lane", "acme"), 1)
    assert "lane 'acme' of queue 'mail' holds 0 queued jobs" in told


def test_the_options_of_the_group_may_stand_before_the_verb_and_after_it(tmp_path: Path) -> None:
    for number, arguments in enumerate(
        [
            ("--url", "other.sqlite", "enqueue", "1", "--id"),
            ("enqueue", "--url", "sqlite:///other.sqlite", "1", "--id"),
            ("--url", "ignored.sqlite", "enqueue", "--url", "other.sqlite", "1", "--id"),
        ]
    ):
        assert command(tmp_path, *arguments, str(number), BANDOG_URL="ignored.sqlite").returncode == 0
    with bandog.connect(tmp_path / "other.sqlite") as queue:
        assert [record.job_id for record in queue.jobs()] == ["0", "1", "2"]
    assert not (tmp_path / "ignored.sqlite").exists()
    before = command(tmp_path, "--json", "--url", "other.sqlite", "enqueue", "1", "--id", "1")
    assert json.loads(before.stdout)["kind"] == "duplicate"
