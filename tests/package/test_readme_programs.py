"""README's programs and commands, run as a reader would run them: in a fresh folder, from files of the names shown."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import bandog

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
PROGRAMS = {
    name: block for language, block in BLOCKS if language == "python" for name in re.findall(r"\A# (\w+\.py)\n", block)
}
COMMANDS = [
    line.partition("  #")[0].strip()
    for language, block in BLOCKS
    if language == "sh"
    for line in block.splitlines()
    if line.startswith("bandog ")
]

JOBS = {
    "mail": bandog.Job(job_id="mail-1", queue="mail", payload={"to": "ada@example.org"}),
    "pages": bandog.Job(job_id="pages-1", queue="pages", payload="https://example.org"),
    "images": bandog.Job(job_id="images-1", queue="images", payload={"size": 1000}),
}

PATIENCE = 60.0
"""Seconds after which anything that was waited for counts as hung."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, program in PROGRAMS.items():
        (tmp_path / name).write_text(program, encoding="utf-8")
    return tmp_path


@pytest.fixture
def queue(folder: Path) -> Iterator[bandog.Queue]:
    with bandog.connect(folder / "jobs.sqlite") as queue:
        yield queue


@contextmanager
def running(folder: Path, *arguments: str) -> Generator[subprocess.Popen[str]]:
    """A process of this interpreter, killed at the end if it still runs."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def stopped(process: subprocess.Popen[str]) -> str:
    """Stop it as a service manager does; what it wrote, without a complaint."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return out


def wait_until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_there_are_programs_and_commands_to_look_at() -> None:
    assert set(PROGRAMS) == {"mailer.py", "fetcher.py", "resizer.py", "shop.py", "receipts.py"}
    assert len(COMMANDS) > 10


@pytest.mark.parametrize(("program", "of_queue"), [("mailer", "mail"), ("fetcher", "pages"), ("resizer", "images")])
def test_a_program_with_a_worker_runs_jobs_until_it_is_stopped(
    folder: Path, queue: bandog.Queue, program: str, of_queue: str
) -> None:
    job = JOBS[of_queue]
    assert job.job_id is not None
    queue.ingest(job)
    with running(folder, f"{program}.py") as process:
        wait_until(lambda: queue.read(job.job_id or "").state == "settled", process)
        out = stopped(process)
    outcome = queue.read(job.job_id).outcome
    assert isinstance(outcome, bandog.Completed), outcome
    if program == "mailer":
        assert out == "mail-1 1 {'to': 'ada@example.org'}\n"
    assert outcome.result == {"mailer": {"sent": True}, "fetcher": None, "resizer": 332833500}[program]


def test_the_program_with_tasks_runs_what_it_has_enqueued(folder: Path, queue: bandog.Queue) -> None:
    with running(folder, "shop.py") as process:
        wait_until(lambda: queue.stats().outcomes.get("completed") == 2, process)
        assert stopped(process) == ""
    outcome = queue.read("welcome-44").outcome
    assert isinstance(outcome, bandog.Completed)
    assert outcome.result == {"sent": ["ada@example.org", ""], "idempotency_key": "welcome-44"}


def test_the_program_with_events_tells_them(
    folder: Path, queue: bandog.Queue, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    queue.enqueue(job_id="a")
    (program,) = [block for language, block in BLOCKS if language == "python" and "on_events" in block]
    monkeypatch.chdir(folder)
    exec(compile(program, "README.md", "exec"), {"bandog": bandog})  # noqa: S102 - our own page
    told = capsys.readouterr().out
    assert "claimed a None\n" in told
    assert "completed a None\n" in told
    assert told.endswith("1 False\n")


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("bandog worker")])
def test_a_command_with_a_worker_runs_jobs(folder: Path, queue: bandog.Queue, line: str) -> None:
    pytest.importorskip("click", reason="the extra cli is not installed")
    queue.ingest_many(JOBS.values())
    arguments = [part for part in shlex.split(line)[1:] if part != "--burst"]
    of_queue = arguments[arguments.index("--queue") + 1] if "--queue" in arguments else "mail"
    with running(folder, "-m", "bandog", "--url", "jobs.sqlite", *arguments) as process:
        wait_until(lambda: queue.read(f"{of_queue}-1").state == "settled", process)
        stopped(process)


def test_every_command_is_understood(folder: Path) -> None:
    pytest.importorskip("click", reason="the extra cli is not installed")
    tried: set[str] = set()
    for line in COMMANDS:
        arguments = shlex.split(line)[1:]
        if arguments[0] == "worker" and "--burst" not in arguments:
            arguments.append("--burst")
        ended = subprocess.run(
            [sys.executable, "-m", "bandog", "--url", "jobs.sqlite", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        # Refused is well: the page has no real lease token, and jobs in other states. Wrong arguments would be 2.
        assert ended.returncode in {0, 1, 4, 5}, (line, ended.stderr)
        tried.add(arguments[0])
    assert {"enqueue", "worker", "claim", "ack", "fail", "get", "jobs", "dead", "stats", "requeue", "cancel"} <= tried


def test_the_exit_codes_are_those_of_the_help() -> None:
    pytest.importorskip("click", reason="the extra cli is not installed")
    from bandog._cli.exits import EXIT_CODES  # noqa: PLC0415 - needs click

    assert [int(code) for code in re.findall(r"^\| (\d+) \|", README, flags=re.MULTILINE)] == sorted(EXIT_CODES)


def test_the_caller_s_transaction_holds_the_job_and_the_rows(folder: Path) -> None:
    with running(folder, "receipts.py") as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert out == "Completed(result=None) [('o-1',)]\n"
