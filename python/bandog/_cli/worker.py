"""The verb ``worker``: a long-running process that runs the jobs of a store, or (``--burst``) all that are due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bandog._cli.arguments import DURATION
from bandog._cli.verb import verb

if TYPE_CHECKING:
    from bandog._cli.session import Session

__all__ = ["worker"]


@verb("worker")
@click.argument("executor", metavar="MODULE:EXECUTOR")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only from this queue; may be repeated.")
@click.option("--concurrency", type=click.IntRange(min=1), help="Jobs at once. Default: 16 threads, or 100 coroutines.")
@click.option("--processes", type=click.IntRange(min=1), help="So many child processes, which run one job each.")
@click.option("--prefetch", type=click.IntRange(min=0), help="Jobs claimed ahead of need. Default: none.")
@click.option("--lease", type=DURATION, help="How long claims outlive a worker that died. Default: 2m.")
@click.option("--grace", type=DURATION, help="How long running jobs may go on after a stop. Default: 25s.")
@click.option("--timeout", type=DURATION, help="How long a job may take that does not say so itself.")
@click.option("--poll", type=DURATION, help="The longest time between two looks at an idle store. Default: 1s.")
@click.option("--name", "worker", metavar="NAME", help="A name for the record. Default: host and process.")
@click.option("--burst", is_flag=True, help="Stop once no job is due.")
@click.option("-v", "--verbose", count=True, help="Log every change of a job.")
@click.option("-q", "--quiet", count=True, help="Log warnings alone; twice: errors alone.")
@click.pass_obj
def worker(
    session: Session,
    /,
    *,
    executor: str,
    queues: tuple[str, ...],
    burst: bool,
    verbose: int,
    quiet: int,
    **settings: Any,
) -> int:
    """Run jobs until SIGTERM or Ctrl-C.

    EXECUTOR is a function of MODULE that takes a job and its cancellation token, a coroutine function, or a registry of
    tasks; modules of the current directory can be imported. A file that is missing is made: a worker is often started
    before the first job is stored.

    The first signal stops it: nothing more is claimed, and running jobs may finish within --grace. A second one ends it
    within a second. At the end one line tells what was done; with --json all counts.

    \b
    The exit code is
      0    stopped, or (--burst) all that was due is done
      3    the store failed, and some outcomes were not recorded
      5    --burst: it is, and some jobs failed for good: see `dead`
      6    some jobs did not stop: they are recovered once their leases end
      130  Ctrl-C before a burst was done, or for the second time; SIGTERM: 143
    """  # noqa: D301 - to click, a backspace says that the lines of a paragraph stay as they are
    from bandog._cli.working import work  # noqa: PLC0415 - a worker loads asyncio, which no other verb needs

    return work(session, executor, queues, settings, burst=burst, louder=verbose - quiet)
