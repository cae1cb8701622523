"""The link that hears of jobs dies (C12): jobs are found by polling meanwhile, and heard of again soon after it can be.

Beside the worker that polls, one looks so seldom that whatever it starts in time was heard of.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from own_server import OwnServer
from processes import PATIENCE, eventually
from proxy import Proxy

import bandog

HOUR = 3_600.0
POLL = 1.0
WITHIN = 0.2
"""Seconds in which a job starts that was heard of."""

KEEPALIVE = 13.0
"""Seconds: the listener is looked after every five, an answer may take three, and the longest pause is another five."""

MARGIN = 10.0
"""Seconds that a busy machine may add."""

QUEUES = ("polled", "heard")


class Hosts:
    """Two workers of one kind behind a way that breaks: one polls, one has to hear."""

    def __init__(self, producer: bandog.Queue) -> None:
        self.producer = producer
        self.started: dict[str, float] = {}
        self.over = threading.Event()
        self._numbers = itertools.count()

    @contextmanager
    def at_work(self, connect: Callable[[], bandog.Queue]) -> Iterator[None]:
        """Each has a job that goes on, whose claim is renewed meanwhile: what breaks is met there too."""
        with ExitStack() as stack:
            for queue, poll in zip(QUEUES, (POLL, HOUR), strict=True):
                # Short leases, so that calls give up soon.
                worker = bandog.Worker(connect(), self._execute, queues=queue, poll=poll, lease=4.0, concurrency=3)
                worker.start()
                stack.callback(worker.stop, 5.0)
                stack.callback(self.over.set)
                self.producer.enqueue(job_id=f"busy-{queue}", queue=queue, max_recoveries=9)
                eventually(lambda queue=queue: f"busy-{queue}" in self.started, "the worker is busy")
            yield

    def _execute(self, job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
        self.started[job.job_id] = time.monotonic()
        if job.job_id.startswith("busy"):
            self.over.wait(2 * PATIENCE)

    def enqueue(self, queue: str) -> str:
        job_id = f"{queue}-{next(self._numbers)}"
        self.producer.enqueue(job_id=job_id, queue=queue)
        return job_id

    def finds(self) -> None:
        """A job is found by polling."""
        job_id = self.enqueue("polled")
        eventually(lambda: job_id in self.started, "it is found by polling", POLL + MARGIN)

    def hears(self, patience: float) -> None:
        """From now on, at the latest after so long, a job starts when it is heard of."""

        def is_heard() -> bool:
            job_id = self.enqueue("heard")
            until = time.monotonic() + WITHIN
            while time.monotonic() < until and job_id not in self.started:
                time.sleep(0.002)
            return job_id in self.started

        eventually(is_heard, f"a job starts within {WITHIN} s of being queued", patience)


def with_listener(url: str, proxy: Proxy) -> str:
    """A URL whose listener alone goes through a proxy."""
    return f"{url}{'&' if '?' in url else '?'}listen_host=127.0.0.1&listen_port={proxy.port}"


@pytest.mark.parametrize("how", ["kill", "cut", "stall", "mute", "swallow"])
@pytest.mark.parametrize("whole", [False, True], ids=["listener", "all links"])
def test_it_polls_while_it_is_deaf_and_hears_again(database: Any, how: str, whole: bool) -> None:
    """With `stall`, `mute` and `swallow` nothing says that a link is dead."""
    hosts = Hosts(database.queue())
    with Proxy(database.url) as proxy:
        url = proxy.url if whole else with_listener(database.url, proxy)
        with hosts.at_work(lambda: database.queue(url=url)):
            hosts.hears(PATIENCE)
            if how == "kill":
                sessions = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'bandog'"
                listening = "" if whole else " AND query ~ '^LISTEN|pg_listening_channels|pg_notify'"
                database.execute(f"SELECT pg_terminate_backend(pid) {sessions}{listening}")
            else:
                getattr(proxy, how)()
            if how != "kill":
                if whole:
                    # Until something has noticed: what nobody has used is not known to be dead.
                    waited = hosts.enqueue("polled")
                    until = time.monotonic() + 4 * POLL
                    eventually(lambda: time.monotonic() > until, "it is broken for some polls")
                    proxy.mend()
                    eventually(lambda: waited in hosts.started, "it is found once there is a way", KEEPALIVE + MARGIN)
                else:
                    for _ in range(3):
                        hosts.finds()
                    proxy.mend()
            hosts.hears(KEEPALIVE + MARGIN)
            hosts.finds()


def test_it_hears_again_after_a_restart_of_the_server() -> None:
    with OwnServer() as server:
        bandog.migrate(server.url)
        with ExitStack() as stack:
            hosts = Hosts(stack.enter_context(bandog.connect(server.url)))
            with hosts.at_work(lambda: stack.enter_context(bandog.connect(server.url))):
                hosts.hears(PATIENCE)
                server.kill()
                until = time.monotonic() + 2 * POLL
                eventually(lambda: time.monotonic() > until, "it is down for a while")
                server.start()
                hosts.hears(KEEPALIVE + MARGIN)
                hosts.finds()


def processor_time(pid: int) -> float:
    """Seconds that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("how", ["cut", "swallow"])
def test_a_deaf_worker_takes_next_to_no_time(database: Any, run_worker: Callable[..., Any], how: str) -> None:
    """Time of the processor, not of the clock. What a whole worker takes with a listener that keeps trying."""
    with Proxy(database.url) as proxy:
        worker = run_worker(with_listener(database.url, proxy), "threads", lease=30, poll=POLL)
        getattr(proxy, how)()
        # Its first, quicker attempts are over then.
        since = time.monotonic() + 2
        eventually(lambda: time.monotonic() > since, "it is broken for a while")
        used = processor_time(worker.pid)
        until = since + 5
        eventually(lambda: time.monotonic() > until, "it stays broken")
        used = processor_time(worker.pid) - used
        print(f"{used / 5:.1%} of a core")
        assert used < 0.05 * 5
