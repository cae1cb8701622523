"""`bandog requeue`, `cancel`, `fail-lane` and `purge`."""

from __future__ import annotations

from pathlib import Path

import pytest
from bandog_command import document, done, on_jobs, one_line, usage_of

import bandog


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """A folder with a completed, a failed, an unknown, a running and a queued job in `jobs.sqlite`."""
    with bandog.connect(tmp_path / "jobs.sqlite") as queue:
        queue.ingest_many([bandog.Job(job_id=job_id) for job_id in ("completed", "failed", "unknown", "running")])
        completed, failed, unknown, _running = queue.claim("w-1", limit=4)
        queue.acknowledge(completed)
        queue.fail(failed, "why")
        queue.outcome_unknown(unknown)
        queue.enqueue(job_id="queued")
    return tmp_path


def states(folder: Path) -> dict[str, str]:
    with bandog.connect(folder / "jobs.sqlite") as queue:
        return {record.job_id: record.outcome.kind if record.outcome else record.state for record in queue.jobs()}


def test_a_dead_letter_is_requeued(jobs: Path) -> None:
    assert done(jobs, "requeue", "failed") == "requeued\tfailed\n"
    assert states(jobs)["failed"] == "queued"
    assert document(jobs, "requeue", "--force", "unknown") == {"kind": "requeued", "job_id": "unknown"}
    assert states(jobs)["unknown"] == "queued"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["unknown"], "is outcome_unknown"),
        (["completed", "--force"], "a completed job is never run again"),
        (["queued"], "needs no requeue"),
        (["none"], "there is no job 'none'"),
    ],
    ids=lambda value: " ".join(value)[:20],
)
def test_what_is_no_dead_letter_is_refused(jobs: Path, arguments: list[str], told: str) -> None:
    before = states(jobs)
    assert told in one_line(on_jobs(jobs, "requeue", *arguments), 1)
    assert states(jobs) == before


def test_cancel(jobs: Path) -> None:
    assert done(jobs, "cancel", "queued") == "cancelled\tqueued\n"
    assert document(jobs, "cancel", "running", "--reason", "no longer wanted") == {
        "kind": "requested",
        "job_id": "running",
        "outcome": None,
    }
    assert document(jobs, "get", "running")["cancel_reason"] == "no longer wanted"
    assert states(jobs) | {"queued": "cancelled", "running": "running"} == states(jobs)


def test_cancelling_what_has_its_outcome_or_is_not_there_is_refused(jobs: Path) -> None:
    ended = on_jobs(jobs, "cancel", "completed")
    assert (ended.returncode, ended.stdout) == (1, "settled\tcompleted\tcompleted\n")
    assert ended.stderr == "bandog: job 'completed' is completed already; nothing was changed\n"
    assert "there is no job 'none'" in one_line(on_jobs(jobs, "cancel", "none"), 1)


def test_a_lane_is_failed_in_one_call_however_long_it_is(tmp_path: Path) -> None:
    with bandog.connect(tmp_path / "jobs.sqlite", synchronous="normal") as queue:
        queue.ingest_many(bandog.Job(queue="mail", lane="acme") for _ in range(2100))
        queue.enqueue(queue="mail", lane="other", job_id="other")
    assert done(tmp_path, "fail-lane", "mail", "acme", "closed", "--limit", "1050") == "failed\t1050\tleft\t1050\n"
    assert document(tmp_path, "fail-lane", "mail", "acme", "closed") == {"kind": "failed", "failed": 1050, "left": 0}
    assert document(tmp_path, "fail-lane", "mail", "acme", "closed")["failed"] == 0
    with bandog.connect(tmp_path / "jobs.sqlite") as queue:
        assert queue.stats().outcomes["failed"] == 2100
        assert queue.dead_letters(limit=1).jobs[0].error == "closed"
        assert queue.read("other").state == "queued"


def test_purge_forgets_what_is_old_enough(jobs: Path) -> None:
    assert done(jobs, "purge", "--older-than", "7d") == "purged\t0\n"
    assert document(jobs, "purge", "--older-than", "0", "--outcome", "failed") == {"kind": "purged", "purged": 1}
    assert "failed" not in states(jobs)
    assert done(jobs, "purge", "--older-than", "0", "--limit", "1") == "purged\t1\n"
    assert done(jobs, "purge", "--older-than", "0") == "purged\t1\n"
    assert states(jobs) == {"running": "running", "queued": "queued"}


def test_purge_forgets_more_than_one_transaction_holds(tmp_path: Path) -> None:
    with bandog.connect(tmp_path / "jobs.sqlite", synchronous="normal") as queue:
        queue.ingest_many(bandog.Job(queue="mail") for _ in range(2100))
        while queue.fail_lane("mail", "default", "closed").left:
            pass
    assert done(tmp_path, "purge", "--older-than", "0") == "purged\t2100\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["requeue"], "Missing argument 'JOB_ID'"),
        (["cancel"], "Missing argument 'JOB_ID'"),
        (["cancel", "a", "b"], "unexpected extra argument"),
        (["fail-lane", "mail", "acme"], "Missing argument 'REASON'"),
        (["fail-lane", "", "acme", "why"], "queue: must not be empty"),
        (["fail-lane", "mail", "acme", "why", "--limit", "0"], "0 is not in the range"),
        (["purge"], "Missing option '--older-than'"),
        (["purge", "--older-than", "old"], "is no duration"),
        (["purge", "--older-than", "-1"], "older_than"),
        (["purge", "--older-than", "0", "--outcome", "done"], "'done' is not one of"),
    ],
    ids=lambda value: " ".join(value)[:40],
)
def test_wrong_arguments_print_the_usage_of_the_verb(jobs: Path, arguments: list[str], told: str) -> None:
    before = states(jobs)
    assert told in usage_of(on_jobs(jobs, *arguments), arguments[0])
    assert states(jobs) == before
