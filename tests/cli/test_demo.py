"""`bandog demo` as a user runs it: in a process of its own, on a pipe and on a terminal."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bandog_command import ESCAPE, command, environment, on_a_terminal

import bandog

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
TOTAL = 292
OUTCOMES = {
    "mail": (200, 200, "200 completed"),
    "flaky": (40, 120, "40 completed"),
    "hopeless": (10, 30, "10 failed"),
    "refused": (10, 10, "10 failed"),
    "doubtful": (5, 5, "5 outcome_unknown"),
    "later": (25, 25, "25 completed"),
    "orphan": (1, 2, "1 completed"),
    "risky": (1, 1, "1 interrupted"),
}


def rows(output: str) -> dict[str, tuple[int, int, str]]:
    """The table, by kind: jobs, attempts, outcomes."""
    found = re.findall(r"^ +(\w+) +(\d+) +(\d+) +(\d+ \w+) ", output, flags=re.MULTILINE)
    return {kind: (int(jobs), int(attempts), outcomes) for kind, jobs, attempts, outcomes in found}


def states(file: Path) -> dict[str, int]:
    counts = {"queued": 0, "running": 0, "settled": 0}
    with bandog.connect(file) as queue:
        after = None
        while True:
            page = queue.jobs(after=after, limit=500)
            for record in page:
                counts[record.state] += 1
            after = page.next
            if after is None:
                return counts


def test_the_first_run_does_everything_and_the_second_finds_it_done(tmp_path: Path) -> None:
    first = command(tmp_path, "demo")
    assert (first.returncode, first.stderr) == (0, "")
    assert f"ingested {TOTAL} jobs: {TOTAL} admitted\n" in first.stdout
    assert "replayed 30 jobs: 30 duplicate\n" in first.stdout
    assert "5 conflict\n" in first.stdout
    assert "a child process claimed 2 jobs and died at work (exit code 9)\n" in first.stdout
    assert "100 retried" in first.stdout
    assert "1 recovered" in first.stdout
    assert "1 interrupted" in first.stdout
    assert rows(first.stdout) == OUTCOMES
    (shown,) = re.findall(r"^```text\n(ingested .*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    assert first.stdout.startswith(shown)
    assert ESCAPE not in first.stdout
    assert "\r" not in first.stdout
    assert len(first.stdout.splitlines()) < 60, "no progress is drawn where nobody watches"
    assert states(tmp_path / "demo.sqlite") == {"queued": 0, "running": 0, "settled": TOTAL}

    started = time.monotonic()
    second = command(tmp_path, "demo", "demo.sqlite")
    assert (second.returncode, second.stderr) == (0, "")
    assert f"ingested {TOTAL} jobs: {TOTAL} duplicate\n" in second.stdout
    assert "nothing to do" in second.stdout
    assert "child process" not in second.stdout
    assert rows(second.stdout) == OUTCOMES
    assert time.monotonic() - started < 30


def test_colour_that_is_asked_for_draws_no_progress_into_a_pipe(tmp_path: Path) -> None:
    done = command(tmp_path, "demo", FORCE_COLOR="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{ESCAPE}[32m200 completed" in done.stdout
    assert f"/{TOTAL}" not in done.stdout
    assert f"{ESCAPE}[2K" not in done.stdout, "no line is drawn over"


def test_other_jobs_of_the_file_are_left_alone(tmp_path: Path) -> None:
    with bandog.connect(tmp_path / "jobs[1].sqlite") as queue:
        queue.enqueue({"mine": True}, job_id="mine")
    done = command(tmp_path, "demo", "jobs[1].sqlite", LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert done.stdout.endswith("all of it is in jobs[1].sqlite\n")
    with bandog.connect(tmp_path / "jobs[1].sqlite") as queue:
        assert (queue.read("mine").state, queue.read("mine").attempts) == ("queued", 0)


def test_a_terminal_gets_a_progress_bar_and_colour(tmp_path: Path) -> None:
    code, shown = on_a_terminal(tmp_path, "demo")
    assert code == 0
    assert ESCAPE in shown
    assert f"/{TOTAL}" in shown, "the bar"
    assert "What happened, and why" in shown


def test_ctrl_c_on_a_terminal_stops_it_and_the_next_run_does_the_rest(tmp_path: Path) -> None:
    code, shown = on_a_terminal(tmp_path, "demo", interrupt_at=f"/{TOTAL}")
    assert code == 130
    assert "stopped: run it again" in shown
    assert "Traceback" not in shown
    left = states(tmp_path / "demo.sqlite")
    assert left["queued"] > 0

    done = command(tmp_path, "demo")
    assert done.returncode == 0
    assert f"{TOTAL} duplicate" in done.stdout
    assert rows(done.stdout) == OUTCOMES, "what was done before Ctrl-C is not done again"


def test_an_interrupt_ends_it_promptly_and_leaves_nothing_running(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "bandog", "demo"], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "child process" in line:
                break
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        started = time.monotonic()
        rest = process.stdout.read()
        assert process.wait(timeout=60) == 130
        assert time.monotonic() - started < 10
    assert "stopped" in rest
    # Those of the child, whose lease may not have run out yet.
    assert states(tmp_path / "demo.sqlite")["running"] <= 2


@pytest.mark.parametrize(
    "arguments",
    [
        *(("demo", "--no-such"), ("demo", "one", "two"), ("no-such",), ("demo", "."), ()),
        *(("--url", "jobs.sqlite", "demo"), ("--json", "demo")),
    ],
    ids=" ".join,
)
def test_wrong_arguments_are_told_on_standard_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = command(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: bandog")
    assert list(tmp_path.iterdir()) == []


def test_help_names_the_file_and_its_default(tmp_path: Path) -> None:
    done = command(tmp_path, "demo", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: bandog demo [OPTIONS] [FILE]")
    assert "demo.sqlite" in done.stdout
    assert command(tmp_path, "--version").stdout == f"bandog, version {bandog.__version__}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_used_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database, but more than a hundred bytes of something else. " * 4)
    done = command(tmp_path, "demo", "notes.txt")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("bandog: ")
    assert "Traceback" not in done.stderr


WITHOUT = """
import sys
real = sys.meta_path[:]
class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {"click", "rich"}:
            return None
        for finder in real:
            found = finder.find_spec(name, path, target)
            if found is not None:
                return found
        return None
sys.meta_path[:] = [Absent]
from bandog.__main__ import main
sys.exit(main())
"""


def test_without_the_extra_one_line_says_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "bandog: the command line needs click and rich, which the extra cli brings: "
        "python -m pip install 'bandog[cli]'\n"
    )


def test_the_package_alone_loads_nothing_of_the_extra(tmp_path: Path) -> None:
    program = "import sys, bandog, bandog.__main__; print({'click', 'rich', 'bandog._cli'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "set()\n")
