"""Wrong arguments: refused with the field's name, before anything is claimed."""

import threading
from datetime import timedelta

import pytest
from executors import act

import bandog
from bandog import Completed, InvalidJob

pytestmark = pytest.mark.kinds("threads")

NAN, INFINITY = float("nan"), float("inf")

WRONG = {
    "execute": [None, 5, "module:function", object()],
    "concurrency": [0, -1, 1.0, True, "2", 100_001, 2**40, []],
    "processes": [0, -1, 1.0, True, "2", 100_001, 2**40, []],
    "queues": [[5], 5, [""], "", [None], ["x" * 300], ["a\0b"], b"q"],
    "lease": [0, -1, 0.4, True, "1", NAN, INFINITY, None, 1e12, timedelta(seconds=0.1)],
    "grace": [-1, True, "1", NAN, INFINITY, None, timedelta(seconds=-1)],
    "prefetch": [-1, 1.0, True, "2", None, 100_001, 2**40],
    "timeout": [-1, True, "1", NAN, INFINITY, timedelta(seconds=-1), []],
    "kill_after": [-1, True, "1", NAN, INFINITY, None],
    "poll": [-1, True, "1", NAN, INFINITY, None],
    "worker": [5, "", b"w", "x" * 300, "a\nb", "\ud800"],
    "on_events": [5, "print", []],
    "queue": [None, "jobs.sqlite", 5],
}

CASES = [(field, value) for field, values in WRONG.items() for value in values]


@pytest.mark.parametrize(("field", "value"), CASES, ids=lambda value: f"{value!r:.20}")
def test_a_wrong_argument_is_refused_with_its_name_before_anything_is_claimed(bench, field, value):
    bench.ingest("no_op", "a")
    arguments = {"queue": bench.queue, "execute": act, field: value}
    with pytest.raises(InvalidJob) as caught:
        bandog.Worker(arguments.pop("queue"), arguments.pop("execute"), **arguments).start()
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")
    assert bench.queue.read("a").attempts == 0


RIGHT = {
    "concurrency": [1, 3, None],
    "queues": [None, "default", ["default"], ("other", "default")],
    "lease": [0.5, 120, timedelta(days=1)],
    "grace": [0, 0.5, timedelta(seconds=2)],
    "prefetch": [0, 1000],
    "timeout": [None, 30, timedelta(minutes=5)],
    "kill_after": [0, 5, timedelta(seconds=1)],
    "poll": [0.001, 60, timedelta(seconds=1)],
    "worker": [None, "w-1", "é"],
    "on_events": [None, print, lambda _events: None],
}


@pytest.mark.parametrize(
    ("field", "value"),
    [(field, value) for field, values in RIGHT.items() for value in values],
    ids=lambda value: f"{value!r:.20}",
)
def test_a_right_argument_is_taken(bench, field, value):
    bench.ingest("no_op", "a")
    with bandog.Worker(bench.queue, act, **{field: value}):
        assert bench.settled("a").outcome == Completed()


def test_processes_and_concurrency_exclude_each_other(bench):
    with pytest.raises(InvalidJob, match="together with processes") as caught:
        bandog.Worker(bench.queue, act, processes=2, concurrency=2)
    assert caught.value.field == "concurrency"


def test_a_wrong_argument_leaves_the_file_free_for_others(bench):
    worker = bandog.Worker(bench.queue, act, lease=0.1)
    with pytest.raises(InvalidJob):
        worker.start()
    bandog.Watchdog(bench.queue, act, is_alive=lambda _record: True).close()


@pytest.mark.parametrize("grace", [-1, True, "1", NAN])
def test_a_stop_checks_its_grace(bench, grace):
    worker = bench.start()
    with pytest.raises(InvalidJob) as caught:
        worker.stop(grace)
    assert caught.value.field == "grace"
    assert worker.running


def test_the_defaults(bench):
    bench.ingest("holds", "a")
    before = threading.active_count()
    with bandog.Worker(bench.queue, act) as worker:
        assert threading.active_count() >= before + 16
        bench.await_note("a", "started")
        record = bench.queue.read("a")
        assert 100 < (record.lease_until - record.claimed_at).total_seconds() <= 121
        assert record.worker == worker._worker
        bench.let_go("a")
        bench.settled("a")
