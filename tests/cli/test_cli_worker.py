"""`bandog worker`: what it runs, how it stops, what it says, and the exit code that a script or a supervisor sees."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import fields
from pathlib import Path

import pytest
from bandog_command import (
    ESCAPE,
    arguments_of,
    command,
    document,
    done,
    environment,
    on_a_terminal,
    on_jobs,
    one_line,
    usage_of,
)
from steps import wait_until

import bandog

APP = '''
import asyncio, os, threading, time
from pathlib import Path
import bandog

def act(job, cancel):
    Path(f"started-{job.job_id}").touch()
    match job.payload:
        case "fail":
            raise ValueError("no \\x1b[31m answer")
        case "watch":
            cancel.wait()
            cancel.raise_if_aborted()
        case "hang":
            threading.Event().wait()
        case {"gate": gate}:
            while not Path(gate).exists():
                time.sleep(0.005)
        case "short":
            time.sleep(0.05)
        case "print":
            print("printed by a job")
    return bandog.Completed([os.getpid(), threading.current_thread() is threading.main_thread()])

async def act_async(job, cancel):
    if job.payload == "hang":
        Path(f"started-{job.job_id}").touch()
        await asyncio.Event().wait()
    return act(job, cancel)

class Registry:
    tasks = bandog.Tasks()

@Registry.tasks.task("add")
def add(one, other):
    return one + other

class Unpicklable:
    """As an executor with a connection, or a lock."""
    lock = None
    def __init__(self):
        self.lock = threading.Lock()
    def __call__(self, job, cancel):
        return bandog.Completed(os.getpid())

unpicklable = Unpicklable()
number = 3

def one_argument(payload):
    pass
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


@pytest.fixture
def queue(folder: Path) -> Iterator[bandog.Queue]:
    with bandog.connect(folder / "jobs.sqlite") as queue:
        yield queue


@contextmanager
def started(folder: Path, *arguments: str, **changes: str) -> Generator[subprocess.Popen[str]]:
    """A worker in a process of its own, killed at the end if it still runs."""
    with subprocess.Popen(
        arguments_of("worker", *arguments),
        cwd=folder,
        env=environment(**{"BANDOG_URL": "jobs.sqlite", **changes}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def await_start(folder: Path, job_id: str) -> None:
    """Wait until the executor has the job: one that is only claimed would be handed back."""
    wait_until((folder / f"started-{job_id}").exists, f"{job_id} has started")


def await_line(process: subprocess.Popen[str], part: str) -> None:
    """Read its log up to a line."""
    assert process.stderr is not None
    lines: list[str] = []
    while not lines or part not in lines[-1]:
        lines.append(process.stderr.readline())
        assert lines[-1], f"it ended without a line {part!r}: {lines}"


def result_of(queue: bandog.Queue, job_id: str) -> object:
    outcome = queue.read(job_id).outcome
    assert isinstance(outcome, bandog.Completed), outcome
    return outcome.result


# What it runs


@pytest.mark.parametrize(
    ("arguments", "in_main_thread", "in_children"),
    [
        (("app:act", "--concurrency", "4"), False, False),
        (("app:act_async", "--concurrency", "4"), True, False),
        (("app:act", "--processes", "2"), True, True),
        (("app:act_async", "--processes", "2"), True, True),
    ],
    ids=["threads", "coroutines", "processes", "coroutines in processes"],
)
def test_a_burst_runs_what_is_due_and_ends(
    folder: Path, queue: bandog.Queue, arguments: tuple[str, ...], in_main_thread: bool, in_children: bool
) -> None:
    queue.ingest_many(bandog.Job(job_id=f"job-{number}", payload=number) for number in range(20))
    queue.ingest(bandog.Job(job_id="later", delay=3600))
    with started(folder, *arguments, "--burst") as process:
        out, err = process.communicate(timeout=100)
    assert (process.returncode, out) == (0, "drained\t20 completed\n"), err
    for number in range(20):
        pid, was_main = json.loads(json.dumps(result_of(queue, f"job-{number}")))
        assert was_main is in_main_thread
        assert (pid != process.pid) is in_children
    assert queue.read("later").state == "queued"


def test_a_registry_of_tasks_is_an_executor_and_may_have_dots(folder: Path, queue: bandog.Queue) -> None:
    for number, arguments in enumerate(((), ("--processes", "1"))):
        queue.enqueue({"task": "add", "args": [1, number], "kwargs": {}}, job_id=f"add-{number}")
        out = done_quietly(folder, "worker", "app:Registry.tasks", "--burst", *arguments)
        assert out == "drained\t1 completed\n"
        assert result_of(queue, f"add-{number}") == 1 + number


def done_quietly(folder: Path, *arguments: str) -> str:
    """What it answers where all is well and only complaints are logged."""
    return done(folder, *arguments, "-q")


def test_child_processes_import_an_executor_that_cannot_be_sent_to_them(folder: Path, queue: bandog.Queue) -> None:
    queue.enqueue(job_id="a")
    assert done_quietly(folder, "worker", "app:unpicklable", "--burst", "--processes", "1") == "drained\t1 completed\n"
    assert isinstance(result_of(queue, "a"), int)


def test_settings_reach_the_worker(folder: Path, queue: bandog.Queue) -> None:
    queue.enqueue("watch", job_id="mail-1", queue="mail")
    queue.enqueue("watch", job_id="sms-1", queue="sms")
    queue.enqueue("watch", job_id="other-1", queue="other")
    with started(
        folder,
        *("app:act", "--queue", "mail", "--queue", "sms", "--concurrency", "1", "--name", "ada", "--lease", "1h"),
        *("--timeout", "1s", "--poll", "500ms", "--prefetch", "1"),
    ) as process:
        await_start(folder, "mail-1")
        record = queue.read("mail-1")
        assert record.worker == "ada"
        assert record.claimed_at is not None
        assert record.lease_until is not None
        assert 3500 < (record.lease_until - record.claimed_at).total_seconds() < 3700
        assert queue.read("sms-1").state == "running", "claimed ahead of need"
        wait_until(lambda: queue.read("mail-1").state == "settled", "it is timed out")
        assert "timeout" in str(queue.read("mail-1").error)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=100)
    assert queue.read("other-1").attempts == 0


# What it says


def test_as_json_it_answers_with_its_counts(folder: Path, queue: bandog.Queue) -> None:
    queue.enqueue(job_id="a")
    answer = document(folder, "worker", "app:act", "--burst", "-q")
    assert list(answer) == [field.name for field in fields(bandog.WorkerStats)]
    assert bandog.WorkerStats(**answer) == bandog.WorkerStats(state="stopped", claimed=1, started=1, completed=1)


def test_a_burst_that_leaves_dead_letters_has_a_code_of_its_own(folder: Path, queue: bandog.Queue) -> None:
    # A failure that is tried again, later, is none of the burst's.
    queue.enqueue("fail", job_id="again", max_attempts=2, backoff=bandog.Backoff(base=3600, cap=3600))
    assert on_jobs(folder, "worker", "app:act", "--burst").returncode == 0
    queue.enqueue("fail", job_id="for good")
    queue.enqueue(job_id="c")
    ended = on_jobs(folder, "worker", "app:act", "--burst")
    assert (ended.returncode, ended.stdout) == (5, "drained\t1 completed\t1 failed\n")


def test_a_file_that_is_missing_is_made_and_told_of(folder: Path) -> None:
    ended = on_jobs(folder, "worker", "app:act", "--burst", "-q")
    assert (ended.returncode, ended.stdout) == (0, "drained\t0 completed\n")
    assert "WARNING bandog.worker: there was no file 'jobs.sqlite': it was made" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert done_quietly(folder, "worker", "app:act", "--burst", "--url", "sqlite:///jobs.sqlite")


def test_a_log_line_has_the_job_as_fields_and_nothing_unprintable(folder: Path, queue: bandog.Queue) -> None:
    queue.enqueue("fail", job_id='a \u202e"b', queue="mail")
    ended = on_jobs(folder, "worker", "app:act", "--burst", "-v")
    lines = ended.stderr.splitlines()
    identity = r'job_id="a \u202e\"b" queue="mail" attempt=1'
    assert len([line for line in lines if " INFO bandog.worker: worker " in line]) == 3, "started, stops, has stopped"
    (raised,) = [line for line in lines if " WARNING " in line]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z WARNING bandog\.worker: job .* raised \(attempt 1\) .*", raised)
    assert raised.endswith(identity)
    (claimed,) = [line for line in lines if " DEBUG bandog.worker: claimed " in line]
    assert claimed.endswith(identity)
    (failed,) = [line for line in lines if " DEBUG bandog.worker: failed: ValueError: " in line]
    assert failed.endswith(identity)
    assert r"ValueError: no \u001b[31m answer" in lines, "the traceback"
    assert ESCAPE not in ended.stderr
    assert "\u202e" not in ended.stderr


def test_less_is_logged_on_request(folder: Path, queue: bandog.Queue) -> None:
    for options, levels in (((), ["INFO", "WARNING"]), (("-q",), ["WARNING"]), (("-q", "-q"), [])):
        queue.enqueue("fail")
        ended = on_jobs(folder, "worker", "app:act", "--burst", *options)
        assert sorted(set(re.findall(r"^\S+Z ([A-Z]+) ", ended.stderr, flags=re.MULTILINE))) == levels


def test_logging_that_the_module_has_set_up_stands(folder: Path, queue: bandog.Queue) -> None:
    (folder / "own.py").write_text(
        "import logging\n"
        "logging.basicConfig(format='mine %(levelname)s %(job_id)s', level='WARNING')\n"
        "logging.getLogger().handlers[0].setFormatter(logging.Formatter('mine %(message)s', defaults={}))\n"
        "from app import act\n"
    )
    queue.enqueue("fail", job_id="a")
    ended = on_jobs(folder, "worker", "own:act", "--burst")
    assert [line for line in ended.stderr.splitlines() if "raised" in line] == ["mine job 'a' raised (attempt 1)"]
    assert "has started" not in ended.stderr
    assert "mine worker" in on_jobs(folder, "worker", "own:act", "--burst", "-v").stderr, "for bandog alone"


# How it stops


def test_the_first_signal_lets_running_jobs_finish(folder: Path, queue: bandog.Queue) -> None:
    queue.enqueue({"gate": str(folder / "gate")}, job_id="first")
    queue.enqueue(job_id="second")
    with started(folder, "app:act", "--concurrency", "1") as process:
        await_start(folder, "first")
        process.send_signal(signal.SIGTERM)
        await_line(process, " stops: ")
        (folder / "gate").touch()
        out, _err = process.communicate(timeout=100)
    assert (process.returncode, out) == (0, "stopped\t1 completed\n")
    assert (queue.read("second").state, queue.read("second").attempts) == ("queued", 0)


def test_after_the_grace_jobs_are_told_and_handed_back_uncharged(folder: Path, queue: bandog.Queue) -> None:
    queue.enqueue("watch", job_id="a", max_attempts=1)
    with started(folder, "app:act", "--grace", "100ms", "--json", "-q") as process:
        await_start(folder, "a")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["released"] == 1
    record = queue.read("a")
    assert (record.state, record.charged, record.attempts) == ("queued", 0, 1)


def test_a_job_that_does_not_stop_is_left_and_told_by_the_code(folder: Path, queue: bandog.Queue) -> None:
    queue.enqueue("hang", job_id="a")
    with started(folder, "app:act", "--grace", "0") as process:
        await_start(folder, "a")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=100)
    assert (process.returncode, out) == (6, "stopped\t0 completed\n")
    assert "job 'a' did not stop: it is abandoned" in err
    assert queue.read("a").state == "running", "until its lease ends"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("executor", ["app:act", "app:act_async"])
def test_the_second_signal_ends_it(folder: Path, queue: bandog.Queue, executor: str, number: signal.Signals) -> None:
    queue.enqueue("hang", job_id="a")
    with started(folder, executor, "--grace", "1h") as process:
        await_start(folder, "a")
        process.send_signal(number)
        await_line(process, " stops: ")
        process.send_signal(number)
        process.communicate(timeout=100)
    assert process.returncode == 128 + number
    # A coroutine may just have been cancelled and handed back; a thread cannot be.
    assert queue.read("a").state in ({"running"} if executor == "app:act" else {"running", "queued"})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_burst_that_a_signal_stops_has_not_done_what_it_should(
    folder: Path, queue: bandog.Queue, number: signal.Signals
) -> None:
    queue.enqueue({"gate": str(folder / "gate")}, job_id="a")
    queue.enqueue(job_id="b")
    with started(folder, "app:act", "--burst", "--concurrency", "1") as process:
        await_start(folder, "a")
        process.send_signal(number)
        await_line(process, " stops: ")
        (folder / "gate").touch()
        out, _err = process.communicate(timeout=100)
    assert (process.returncode, out) == (128 + number, "stopped\t1 completed\n")
    assert queue.read("b").state == "queued"


def test_ctrl_c_before_it_has_started_ends_it_without_a_word(folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import pathlib, threading\npathlib.Path('there').touch()\nthreading.Event().wait()\n"
    )
    with started(folder, "slow:act") as process:
        wait_until((folder / "there").exists, "the module is being imported")
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=100) == ("", "")
    assert process.returncode == 130
    assert not (folder / "jobs.sqlite").exists()


def test_outcomes_that_could_not_be_recorded_are_no_success(folder: Path, queue: bandog.Queue) -> None:
    queue.enqueue({"gate": str(folder / "gate")}, job_id="a")
    with started(folder, "app:act", BANDOG_URL="sqlite:///jobs.sqlite?busy_timeout=0.1") as process:
        await_start(folder, "a")
        with closing(sqlite3.connect(folder / "jobs.sqlite", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            (folder / "gate").touch()
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=100)
    assert process.returncode == 3, err
    assert "1 unrecorded" in out
    assert "1 reports were not recorded" in err


def test_a_runtime_with_a_probe_keeps_workers_out(folder: Path, queue: bandog.Queue) -> None:
    with bandog.Watchdog(queue, lambda _job, _cancel: None, is_alive=lambda _job: True):
        assert "jobs.sqlite" in one_line(on_jobs(folder, "worker", "app:act", "--burst"), 3)


# What it refuses


@pytest.mark.parametrize(
    ("executor", "told"),
    [
        ("app", "'app' names no executor: give a module and its attribute, as in app.jobs:send"),
        ("app:", "names no executor"),
        (":act", "names no executor"),
        ("./app:act", "names no executor"),
        ("app:act()", "names no executor"),
        ("nowhere:act", "there is no module 'nowhere' in "),
        ("app.nowhere:act", "there is no module 'app.nowhere' in "),
        ("app:nothing", "module 'app' has no attribute 'nothing'"),
        ("app:Registry.nothing", "app:Registry has no attribute 'nothing'"),
        ("app:number", "app:number cannot be called: it is of type int"),
        ("app:Unpicklable", "app:Unpicklable is a class"),
        ("app:add", "app:add is a task, which takes arguments of its own: name its registry"),
        ("app:one_argument", "app:one_argument cannot be called with two arguments"),
        ("broken:act", "module 'broken' cannot be imported: ZeroDivisionError: division by zero (at "),
        ("leaves:act", "module 'leaves' cannot be imported: SystemExit: 0"),
        ("needs:act", "module 'needs' cannot be imported: ModuleNotFoundError: No module named 'not_there'"),
    ],
)
def test_what_is_no_executor_is_a_wrong_argument(folder: Path, executor: str, told: str) -> None:
    (folder / "broken.py").write_text("1 / 0")
    (folder / "leaves.py").write_text("raise SystemExit(0)")
    (folder / "needs.py").write_text("import not_there")
    for processes in ((), ("--processes", "1")):
        assert told in usage_of(on_jobs(folder, "worker", executor, *processes), "worker")
    assert not (folder / "jobs.sqlite").exists()


def test_a_module_that_is_broken_can_be_traced(folder: Path) -> None:
    (folder / "broken.py").write_text("1 / 0")
    ended = on_jobs(folder, "worker", "broken:act", BANDOG_TRACEBACK="1")
    assert ended.returncode == 2
    assert "1 / 0" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Missing argument 'MODULE:EXECUTOR'"),
        (("app:act", "--concurrency", "0"), "0 is not in the range x>=1"),
        (("app:act", "--processes", "1", "--concurrency", "1"), "cannot be given together with processes"),
        (("app:act", "--grace", "soon"), "'soon' is no duration"),
        (("app:act", "--grace", "nan"), "grace: must be seconds"),
        (("app:act", "--lease", "0"), "lease: "),
        (("app:act", "--queue", ""), "queue"),
    ],
    ids=" ".join,
)
def test_wrong_settings_print_the_usage(folder: Path, arguments: tuple[str, ...], told: str) -> None:
    ended = on_jobs(folder, "worker", *arguments, "-qq")
    assert told in usage_of(ended, "worker")


def test_the_current_directory_is_not_searched_where_python_is_told_not_to(folder: Path) -> None:
    ended = command(folder, "worker", "app:act", "--burst", BANDOG_URL="jobs.sqlite", PYTHONSAFEPATH="1")
    assert "there is no module 'app'" in usage_of(ended, "worker")


# On a terminal


def test_a_burst_has_a_progress_bar_that_goes_away(folder: Path, queue: bandog.Queue) -> None:
    queue.enqueue("fail", job_id="bad")
    queue.enqueue("print", job_id="print")
    queue.ingest_many(bandog.Job(payload="short") for _ in range(18))
    code, shown = on_a_terminal(
        folder, "worker", "app:act", "--burst", "--concurrency", "1", "-q", BANDOG_URL="jobs.sqlite"
    )
    assert code == 5
    assert "/20" in shown
    assert "1 failed" in shown
    assert "printed by a job" in shown
    # The last thing that the bar does is to give the cursor back and to clear its line.
    assert shown.rindex(f"{ESCAPE}[?25h") > shown.rindex(f"{ESCAPE}[?25l")
    after = shown[shown.rindex("/20") :]
    assert f"{ESCAPE}[2K" in after
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown).endswith("drained 19 completed 1 failed\r\n")


def test_ctrl_c_on_a_terminal_stops_a_burst_and_loses_nothing(folder: Path, queue: bandog.Queue) -> None:
    queue.ingest_many(bandog.Job(payload="short") for _ in range(200))
    code, shown = on_a_terminal(
        folder,
        *("worker", "app:act", "--burst", "--concurrency", "2", "-q"),
        interrupt_at="/200",
        BANDOG_URL="jobs.sqlite",
    )
    assert code == 130
    assert shown.rindex(f"{ESCAPE}[?25h") > shown.rindex(f"{ESCAPE}[?25l")
    left = queue.stats()
    assert left.queues["default"].running == 0
    assert left.queues["default"].queued + left.outcomes["completed"] == 200
    assert left.queues["default"].queued > 0
    assert done_quietly(folder, "worker", "app:act", "--burst").startswith("drained\t")
    assert queue.stats().outcomes["completed"] == 200


def test_nothing_is_drawn_where_nobody_watches_or_a_script_reads(folder: Path, queue: bandog.Queue) -> None:
    queue.enqueue(job_id="a")
    piped = on_jobs(folder, "worker", "app:act", "--burst", FORCE_COLOR="1")
    assert ESCAPE not in piped.stdout + piped.stderr
    queue.enqueue("short", job_id="b")
    code, shown = on_a_terminal(folder, "worker", "app:act", "--burst", "--json", "-q", BANDOG_URL="jobs.sqlite")
    assert code == 0
    assert json.loads(shown)["completed"] == 1
