"""Seed 1's example, and each of its promises that a store can be asked about, on our names.

README has the table of names. Its liveness probe is in ``test_probe_sqlite.py``.
"""

import threading

import pytest
from steps import LEASE, Background, claim_one, everything, watchdog

from bandog import (
    Cancelled,
    Completed,
    Failed,
    Job,
    JobAborted,
    JobConflict,
    OutcomeUnknown,
    StaleClaim,
    Tick,
)

REPORT = Job(
    job_id="report-1",
    queue="reports",
    lane="default",
    priority=0,
    payload={"reportId": "monthly-1"},
    max_recoveries=1,
)


def example(queue, printed):
    """The program of the seed: admit, tick, read."""

    def execute(claimed, cancel):
        if cancel.aborted:
            return Cancelled()
        printed.append(claimed.payload)
        return Completed()

    admission = queue.ingest(REPORT)
    tick = watchdog(queue, execute).tick()
    return admission, tick, queue.read(REPORT.job_id)


def test_the_first_run_settles_the_report_and_the_second_one_finds_it_done(store):
    printed = []
    admission, tick, record = example(store.connect(), printed)
    assert (admission.kind, tick) == ("admitted", Tick(kind="settled", job_id="report-1", outcome=Completed()))
    assert (record.state, record.outcome) == ("settled", Completed())
    before = everything(record)
    admission, tick, record = example(store.reopen(), printed)
    assert (admission.kind, tick) == ("duplicate", Tick(kind="idle"))
    assert everything(record) == everything(admission.job) == before
    assert printed == [{"reportId": "monthly-1"}]


def test_an_identical_replay_creates_no_other_job_and_other_content_is_a_conflict(queue):
    for kind in ("admitted", "duplicate", "duplicate"):
        assert queue.ingest(REPORT).kind == kind
    assert [record.job_id for record in queue.jobs()] == ["report-1"]
    with pytest.raises(JobConflict):
        queue.enqueue({"reportId": "monthly-2"}, job_id="report-1", queue="reports", max_recoveries=1)


def test_a_job_survives_the_process_that_took_it(store):
    store.connect().ingest(REPORT)
    queue = store.reopen()
    claim_one(queue, "report-1", worker="gone")
    queue = store.reopen()
    assert queue.read("report-1").state == "running"
    store.advance(LEASE + 1)
    tick = watchdog(queue, lambda _job, _cancel: Completed()).tick()
    assert tick == Tick(kind="settled", job_id="report-1", outcome=Completed(), recovered=("report-1",))
    assert (queue.read("report-1").attempts, queue.read("report-1").recoveries) == (2, 1)


def test_when_the_recovery_budget_is_used_up_the_job_is_interrupted(store, queue):
    queue.ingest(REPORT)
    for _ in range(2):
        claim_one(queue, "report-1")
        store.advance(LEASE + 1)
        tick = watchdog(queue, lambda _job, _cancel: Completed()).tick() if queue.read("report-1").recoveries else None
        queue.recover()
    assert tick == Tick(kind="idle", interrupted=("report-1",))
    assert queue.read("report-1").outcome.kind == "interrupted"


@pytest.mark.parametrize(
    "outcome", [Completed(), Failed("why"), Cancelled("why"), OutcomeUnknown({"seen": 1})], ids=repr
)
def test_the_four_outcomes_that_an_executor_reports_are_recorded(queue, outcome):
    queue.ingest(REPORT)
    assert watchdog(queue, lambda _job, _cancel: outcome).tick().outcome == outcome
    assert queue.read("report-1").outcome == outcome


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(0), GeneratorExit(), MemoryError()], ids=repr)
def test_an_exception_is_a_failure_and_no_success_receipt(queue, error):
    queue.ingest(REPORT)

    def execute(_job, _cancel):
        raise error

    assert watchdog(queue, execute).tick().outcome.kind == "failed"
    assert queue.read("report-1").outcome.kind == "failed"


def test_an_expired_or_replaced_claim_can_neither_renew_nor_settle(store, queue):
    queue.ingest(REPORT)
    old = claim_one(queue, "report-1")
    store.advance(LEASE + 1)
    for _ in range(2):
        with pytest.raises(StaleClaim):
            queue.renew(old)
        with pytest.raises(StaleClaim):
            queue.acknowledge(old)
        if queue.read("report-1").attempts == 1:
            replacement = claim_one(queue, "report-1")
    assert queue.acknowledge(replacement).kind == "completed"


def test_a_tick_is_single_flight_and_another_one_is_busy(queue):
    queue.ingest(REPORT)
    started, go_on = threading.Event(), threading.Event()

    def execute(_job, _cancel):
        started.set()
        assert go_on.wait(30)

    dog = watchdog(queue, execute)
    running = Background(dog.tick)
    assert started.wait(30)
    assert dog.tick() == Tick(kind="busy")
    go_on.set()
    assert running.join().kind == "settled"
    assert dog.tick() == Tick(kind="idle")


def test_lanes_do_not_make_a_pool_of_workers(queue):
    queue.ingest_many(Job(job_id=f"{number}", lane=f"lane-{number}") for number in range(3))
    running, most = [], []

    def execute(job, _cancel):
        running.append(job.job_id)
        most.append(len(running))
        running.remove(job.job_id)

    dog = watchdog(queue, execute)
    assert [dog.tick().job_id for _ in range(3)] == ["0", "1", "2"]
    assert most == [1, 1, 1]


def test_payload_queue_and_lane_are_opaque(queue):
    payload = {"__class__": "os.system", "$ref": "#", "a": [None, True, 1.5, "ü"], "": {}}
    queue.enqueue(payload, job_id="a", queue="mail; drop table", lane="../%s")
    seen = []
    watchdog(queue, lambda job, _cancel: seen.append((job.payload, job.queue, job.lane))).tick()
    assert seen == [(payload, "mail; drop table", "../%s")]


def test_cancel_fail_lane_purge_and_has_pending_work_are_there(store, queue):
    queue.ingest_many([REPORT, Job(job_id="b", queue="reports", lane="acme"), Job(job_id="c")])
    assert queue.cancel("report-1").kind == "cancelled"
    assert queue.fail_lane("reports", "acme", "the customer left").failed == 1
    assert queue.has_pending_work()
    assert watchdog(queue, lambda _job, _cancel: None).tick().job_id == "c"
    assert not queue.has_pending_work()
    store.advance(1)
    assert queue.purge(older_than=0) == 3


def test_the_executor_honours_its_signal(queue):
    queue.ingest(REPORT)

    def execute(job, cancel):
        cancel.raise_if_aborted()
        queue.cancel(job.job_id, "no longer wanted")
        try:
            cancel.raise_if_aborted()
        except JobAborted:
            return Cancelled(cancel.detail)
        return Completed()

    assert watchdog(queue, execute).tick().outcome == Cancelled("no longer wanted")


def test_a_bounded_lane_refuses(queue):
    queue.set_lane_limit("reports", "default", 1)
    other = Job(job_id="report-2", queue="reports")
    assert [admission.kind for admission in queue.ingest_many([REPORT, other, REPORT])] == [
        "admitted",
        "refused",
        "duplicate",
    ]
