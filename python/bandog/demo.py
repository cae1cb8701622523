"""``bandog demo``: a few hundred jobs on a file, run before your eyes, and a table of what happened and why.

Needs the extra ``cli`` (rich). On a terminal there is a progress bar and colour; elsewhere plain lines.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

import bandog
from bandog import _demo_jobs as plan

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

    from bandog import JobRecord, Queue, Tick

__all__ = ["demo"]

LEASE = 5.0
"""Seconds. A demo that was killed is taken up by the next one after that."""

GLANCE = 0.02
"""Seconds between two looks while no job is due. A host of its own would use :class:`bandog.Timer`."""


class Stop:
    """Ctrl-C as a flag, so that the job under way ends as it would have. A second Ctrl-C interrupts at once."""

    def __init__(self) -> None:
        self.asked = False
        self._before = signal.signal(signal.SIGINT, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, self._before)

    def over(self) -> None:
        """Leave the signal as it was."""
        signal.signal(signal.SIGINT, self._before)


def demo(path: str) -> bool:
    """Run the demo on a file.

    Args:
        path: the database, created where it is missing.

    Returns:
        Whether it came to its end; ``False`` where Ctrl-C stopped it.

    Raises:
        BandogError: the file cannot be used.
    """
    console = Console(highlight=False, markup=False)
    stop = Stop()
    try:
        with bandog.connect(path) as queue:
            started = time.monotonic()
            _ingest(console, queue)
            waiting = _unsettled(queue, (job_id for kind in plan.KINDS for job_id in plan.job_ids(kind)))
            if not waiting:
                console.print("nothing to do: every job has its outcome")
            else:
                _crash(console, queue, path, stop)
                _run(console, queue, waiting, stop)
            if stop.asked:
                console.print(f"stopped: run it again to do the {len(waiting)} jobs that are left")
                return False
            _report(console, queue)
            console.print(f"took {time.monotonic() - started:.1f} s; all of it is in {path}", soft_wrap=True)
    finally:
        stop.over()
    return True


def _ingest(console: Console, queue: Queue) -> None:
    """Admit everything, some of it twice, and some ids with other content."""
    everything = [job for kind in plan.KINDS for job in plan.jobs(kind)]
    mails = plan.jobs(plan.KINDS[0])
    taken = [bandog.Job(job_id=job.job_id, queue=job.queue, payload="other") for job in mails[: plan.TAKEN]]
    for what, batch in (
        ("ingested", everything),
        ("replayed", mails[: plan.REPLAYED]),
        ("other content under an id that is taken:", taken),
    ):
        kinds = Counter(admission.kind for admission in queue.ingest_many(batch))
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        console.print(f"{what} {len(batch)} jobs: {counts}")


def _unsettled(queue: Queue, job_ids: Iterable[str]) -> set[str]:
    return {job_id for job_id in job_ids if queue.read(job_id).state != "settled"}


def _crash(console: Console, queue: Queue, path: str, stop: Stop) -> None:
    """Have a child process claim its jobs and die. Not again where they have been claimed before."""
    orphan = queue.read("demo-orphan-001")
    if orphan.state != "queued" or orphan.attempts or stop.asked:
        return
    child = subprocess.run(  # noqa: S603 - this interpreter, with our own module
        [sys.executable, "-P", "-m", plan.__name__, path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False
    )
    claimed = len(child.stdout.split())
    console.print(f"a child process claimed {claimed} jobs and died at work (exit code {child.returncode})")


def _run(console: Console, queue: Queue, waiting: set[str], stop: Stop) -> None:
    """Tick until each job has its outcome. Takes those that have it out of ``waiting``."""
    columns = (TextColumn("running"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    ticks: Counter[str] = Counter()
    total = sum(kind.count for kind in plan.KINDS)
    with ExitStack() as opened:
        watchdog = opened.enter_context(bandog.Watchdog(queue, plan.execute, queues=plan.QUEUES, lease=LEASE))
        # Nothing is redrawn where nobody watches, also not where FORCE_COLOR asks for colour there.
        watched = console.is_interactive and sys.stdout.isatty()
        bar = opened.enter_context(Progress(*columns, console=console, transient=True)) if watched else None
        task = bar.add_task("", total=total) if bar else None
        while waiting and not stop.asked:
            tick = watchdog.tick()
            _count(ticks, tick)
            if tick.job_id is not None and tick.kind == "settled":
                waiting.discard(tick.job_id)
            if tick.kind == "idle":
                # Another process may have settled some; what is due later shows by itself.
                waiting &= _unsettled(queue, waiting)
                time.sleep(GLANCE)
            if bar is not None and task is not None:
                words = ("retried", "recovered", "interrupted")
                told = ", ".join(f"{ticks[word]} {word}" for word in words if ticks[word])
                bar.update(task, completed=total - len(waiting), description=told)
    told = ", ".join(f"{count} {word}" for word, count in ticks.most_common())
    console.print(f"ran: {told}" if told else "ran: nothing")


def _count(ticks: Counter[str], tick: Tick) -> None:
    if tick.job_id is not None:
        ticks[tick.kind] += 1
    for word, job_ids in (("recovered", tick.recovered), ("interrupted", tick.interrupted)):
        if job_ids:
            ticks[word] += len(job_ids)


def _report(console: Console, queue: Queue) -> None:
    """Say of each kind how many jobs, attempts and outcomes there are, and what became of one of them."""
    table = Table(title="What happened, and why", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("kind", style="bold", no_wrap=True)
    table.add_column("jobs", justify="right", no_wrap=True)
    table.add_column("attempts", justify="right", no_wrap=True)
    table.add_column("outcomes", no_wrap=True)
    table.add_column("why, and the last of them")
    for kind in plan.KINDS:
        records = [queue.read(job_id) for job_id in plan.job_ids(kind)]
        outcomes = Counter(record.outcome.kind for record in records if record.outcome)
        table.add_row(
            kind.name,
            str(len(records)),
            str(sum(record.attempts for record in records)),
            Text("\n").join(_coloured(word, count) for word, count in outcomes.items()),
            Text(f"{kind.why}\n{_example(records[-1])}"),
        )
    console.print(table)


def _coloured(outcome: str, count: int) -> Text:
    colour = {"completed": "green", "failed": "red", "interrupted": "red"}.get(outcome, "yellow")
    return Text(f"{count} {outcome}", style=colour)


def _example(record: JobRecord) -> str:
    """What the record of one job says, in a few words."""
    told = f"{record.job_id}: {record.attempts} attempt{'s' * (record.attempts > 1)}"
    if record.recoveries:
        told += f", {record.recoveries} recovery"
    if record.error:
        # Where an exception was raised is in the record, too.
        told += f", {record.error.splitlines()[0].split(' (at ')[0]}"
    return told
