"""The same calls natively and through ``connection=`` leave the same rows and give the same answers."""

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from fix_postgres import Server
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sides import CALLS, FileSide, ServerSide

from bandog import Backoff, Failed, Job

RETRIED = Job(job_id="a", max_attempts=9, backoff=Backoff(7, 7))
PUT_BACK_SINCE = [
    ("ingest", RETRIED),
    ("claim", 1),
    ("settle", 0, Failed("why", retry_in=0), "object"),
    ("claim", 1),
    ("advance", 61),
    ("recover",),
    # The first claim again: its report was recorded, and where the job waits now is not what was answered then.
    ("settle", 1, Failed("why"), "object"),
]
OWN_BACKOFF = [("ingest", RETRIED), ("claim", 1), ("settle", 0, Failed("why", backoff=Backoff(3, 3)), "object")]


def assert_same(native, ours, calls):
    with native.opened, ours.opened:
        for call in calls:
            assert ours.do(call) == native.do(call), call
            assert ours.rows() == native.rows(), call


@given(st.lists(CALLS, max_size=25))
@example(PUT_BACK_SINCE)
@example(OWN_BACKOFF)
def test_the_same_calls_leave_the_same_rows_in_a_file(calls):
    folder = Path(tempfile.mkdtemp(prefix="bandog-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))  # noqa: S108
    try:
        assert_same(FileSide(folder, native=True), FileSide(folder, native=False), calls)
    finally:
        shutil.rmtree(folder)


class Second(Server):
    """Beside the first one, under a name that has to be quoted."""

    schema = 'the "Second"'


@pytest.fixture(scope="module")
def servers(postgres_server):
    second = Second(postgres_server.url)
    yield postgres_server, second
    second.execute('DROP SCHEMA "the ""Second""" CASCADE')
    second.close()


# Fewer, for each call takes several ways to the server.
@settings(max_examples=max(settings.default.max_examples // 4, 10))
@given(calls=st.lists(CALLS, max_size=25))
@example(calls=PUT_BACK_SINCE)
@example(calls=OWN_BACKOFF)
def test_the_same_calls_leave_the_same_rows_on_a_server(servers, calls):
    native, ours = servers
    assert_same(ServerSide(native, native=True), ServerSide(ours, native=False), calls)


@pytest.mark.parametrize("jitter", [0.5, 1.0])
@pytest.mark.parametrize("where", ["file", "server"])
def test_a_jitter_shortens_the_wait_by_up_to_its_share(tmp_path, where, jitter, request):
    if where == "file":
        sides = FileSide(tmp_path, native=True), FileSide(tmp_path, native=False)
    else:
        native, ours = request.getfixturevalue("servers")
        sides = ServerSide(native, native=True), ServerSide(ours, native=False)
    with ExitStack() as stack:
        for side in sides:
            stack.enter_context(side.opened)
            waits = set()
            for number in range(40):
                side.queue.ingest(Job(job_id=f"{number}", max_attempts=9))
                (claim,) = side.queue.claim()
                report = Failed("why", backoff=Backoff(100, 100, jitter))
                waits.add((side.queue.settle(claim, report).available_at - side.clock.now()).total_seconds())
            assert len(waits) > 30
            assert all(100 * (1 - jitter) <= wait <= 100 for wait in waits)
