"""`bandog claim`, `ack` and `fail`: a worker written in shell."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bandog_command import document, done, environment, on_jobs, one_line, usage_of

import bandog


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """A folder with three jobs in `jobs.sqlite`."""
    with bandog.connect(tmp_path / "jobs.sqlite") as queue:
        queue.ingest_many(
            [
                bandog.Job(job_id="a", queue="mail", payload={"to": "ada\tb"}, max_attempts=2),
                bandog.Job(job_id="b", queue="mail"),
                bandog.Job(job_id="c", queue="sms"),
            ]
        )
    return tmp_path


def claimed(folder: Path, *arguments: str) -> tuple[str, str]:
    """The id and the token of the next claim."""
    line = done(folder, "claim", *arguments)
    job_id, token, _attempt, _payload = line.removesuffix("\n").split("\t")
    return job_id, token


def test_a_claim_is_a_line_of_id_token_attempt_and_payload(jobs: Path) -> None:
    line = done(jobs, "claim", "--worker", "w-1", "--queue", "mail")
    job_id, token, attempt, payload = line.removesuffix("\n").split("\t")
    assert (job_id, attempt, payload) == ("a", "1", '{"to":"ada\\tb"}')
    assert token
    assert document(jobs, "get", "a")["worker"] == "w-1"


def test_claims_as_json(jobs: Path) -> None:
    found = document(jobs, "claim", "--limit", "2", "--queue", "sms", "--queue", "mail", "--lease", "1h")["jobs"]
    assert [claim["job_id"] for claim in found] == ["a", "b"]
    assert found[0]["payload"] == {"to": "ada\tb"}
    assert found[0]["attempt"] == 1
    assert found[0]["lease_token"]
    until = datetime.fromisoformat(document(jobs, "get", "a")["lease_until"])
    assert timedelta(minutes=58) < until - datetime.now(UTC) <= timedelta(minutes=60)


def test_nothing_due_has_an_exit_code_of_its_own(jobs: Path) -> None:
    ended = on_jobs(jobs, "claim", "--queue", "no-such")
    assert (ended.returncode, ended.stdout, ended.stderr) == (4, "", "no job is due\n")
    ended = on_jobs(jobs, "claim", "--queue", "no-such", "--json")
    assert (ended.returncode, ended.stdout, ended.stderr) == (4, '{"jobs": []}\n', "")


def test_ack_completes_and_says_so_again(jobs: Path) -> None:
    job_id, token = claimed(jobs)
    assert done(jobs, "ack", job_id, token, "--result", '{"sent": true}') == "completed\ta\n"
    assert document(jobs, "ack", job_id, token) == {"kind": "completed", "job_id": "a", "available_at": None}
    assert document(jobs, "get", "a")["outcome"] == {"kind": "completed", "result": {"sent": True}}


def test_fail_is_retried_and_then_a_dead_letter(jobs: Path) -> None:
    job_id, token = claimed(jobs)
    word, again, due = done(jobs, "fail", job_id, token, "no answer", "--retry-in", "0").removesuffix("\n").split("\t")
    assert (word, again) == ("retried", "a")
    assert datetime.fromisoformat(due) <= datetime.now(UTC)
    assert document(jobs, "get", "a")["error"] == "no answer"
    with bandog.connect(jobs / "jobs.sqlite") as queue:
        (claim,) = (claim for claim in queue.claim(limit=3) if claim.job_id == "a")
    assert claim.attempt == 2
    assert done(jobs, "fail", "a", claim.lease_token, "still none") == "failed\ta\n"
    assert document(jobs, "get", "a")["outcome"] == {"kind": "failed", "reason": "still none"}


def test_a_failure_may_be_final_at_once_and_waits_may_be_given(jobs: Path) -> None:
    job_id, token = claimed(jobs)
    assert document(jobs, "fail", job_id, token, "why", "--no-retry")["kind"] == "failed"
    done(jobs, "enqueue", "1", "--id", "d", "--max-attempts", "9", "--priority", "1")
    job_id, token = claimed(jobs)
    due = document(jobs, "fail", job_id, token, "why", "--base", "1h", "--cap", "2h")["available_at"]
    assert timedelta(minutes=58) < datetime.fromisoformat(due) - datetime.now(UTC) <= timedelta(minutes=60)


def test_a_claim_that_ended_otherwise_is_refused(jobs: Path) -> None:
    job_id, token = claimed(jobs)
    done(jobs, "fail", job_id, token, "why", "--no-retry")
    ended = on_jobs(jobs, "ack", job_id, token)
    assert (ended.returncode, ended.stdout) == (1, "failed\ta\n"), "what was recorded is told"
    assert ended.stderr == "bandog: the claim on job 'a' was ended before, as failed; nothing was changed\n"
    assert document(jobs, "get", "a")["outcome"]["kind"] == "failed"


@pytest.mark.parametrize("verb", [("ack",), ("fail", "why")], ids=lambda verb: verb[0])
def test_a_stale_claim_and_an_unknown_job_are_refused(jobs: Path, verb: tuple[str, ...]) -> None:
    word, *rest = verb
    job_id, _token = claimed(jobs)
    told = one_line(on_jobs(jobs, word, job_id, "0" * 32, *rest), 1)
    assert "the claim on job 'a' no longer holds" in told
    assert "there is no job 'none'" in one_line(on_jobs(jobs, word, "none", "0" * 32, *rest), 1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["claim", "now"], "unexpected extra argument"),
        (["claim", "--limit", "0"], "limit"),
        (["claim", "--lease", "0.1"], "lease"),
        (["claim", "--worker", ""], "worker"),
        (["ack"], "Missing argument 'JOB_ID'"),
        (["ack", "a"], "Missing argument 'LEASE_TOKEN'"),
        (["ack", "a", "b", "--result", "{"], "not valid JSON"),
        (["fail", "a", "b"], "Missing argument 'REASON'"),
        (["fail", "a", "b", "c", "--retry-in", "-1"], "retry_in"),
        (["fail", "a", "b", "c", "--base", "later"], "is no duration"),
    ],
    ids=lambda value: " ".join(value)[:40],
)
def test_wrong_arguments_print_the_usage_of_the_verb(jobs: Path, arguments: list[str], told: str) -> None:
    assert told in usage_of(on_jobs(jobs, *arguments), arguments[0])


WORKER = """
while line=$($BANDOG claim --queue mail); do
    IFS='\t' read -r job token attempt payload <<END
$line
END
    printf '%s %s %s\\n' "$job" "$attempt" "$payload"
    $BANDOG ack "$job" "$token" >/dev/null
done
echo "no more: $?"
"""


def test_a_worker_in_ten_lines_of_shell(jobs: Path) -> None:
    ended = subprocess.run(
        ["/bin/sh", "-c", WORKER],
        cwd=jobs,
        env=environment(BANDOG=f"{sys.executable} -m bandog", BANDOG_URL="jobs.sqlite"),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.stdout == 'a 1 {"to":"ada\\tb"}\nb 1 null\nno more: 0\n'
