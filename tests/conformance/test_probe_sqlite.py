"""The runtime with a liveness probe (seed 1): the oldest running claim first, unknown is not dead. SQLite only.

What keeps two runtimes apart is in ``test_runtime_lock_sqlite.py``.
"""

import logging

import pytest
from steps import LEASE, Background, claim_one, everything, executor_of, watchdog

from bandog import (
    Cancelled,
    Completed,
    Failed,
    Job,
    Release,
    Snooze,
    StaleClaim,
    Tick,
)

pytestmark = pytest.mark.both_faces


@pytest.fixture
def queue(sqlite_store):
    return sqlite_store.connect()


def never(record):
    raise AssertionError(f"nobody should ask about {record.job_id}")


def abandon(store, *job_ids, **fields):
    """Running jobs of a host that is gone: claimed in this order by a runtime that probes, and never settled."""
    for job_id in job_ids:
        queue = store.connect()
        queue.ingest(Job(job_id=job_id, priority=99, **fields))
        engine = queue.engine
        claims, _, _, _ = engine.claim(worker="gone", queues=None, limit=1, lease=None, keep=False).wait()
        assert [claim.job_id for claim in claims] == [job_id]
        store.advance(1)
        queue.close()


class Probe:
    """A host's answers, and what it was asked."""

    def __init__(self, answers):
        self.answers = answers
        self.asked = []

    def __call__(self, record):
        self.asked.append(record.job_id)
        answer = self.answers.get(record.job_id, False)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def test_a_tick_runs_one_job_and_has_nobody_to_ask_about(queue):
    queue.enqueue({"n": 1}, job_id="a")
    seen = []

    def execute(job, token):
        seen.append((job.payload, token.aborted))
        return Completed("done")

    with watchdog(queue, execute, is_alive=never) as dog:
        assert dog.tick() == Tick(kind="settled", job_id="a", outcome=Completed("done"))
        assert dog.tick() == Tick(kind="idle")
    assert seen == [({"n": 1}, False)]
    assert queue.read("a").outcome == Completed("done")


@pytest.mark.parametrize("is_alive", [False, True], ids=["not alive", "alive"])
def test_the_example_s_liveness_set_is_empty_after_a_restart(sqlite_store, is_alive):
    """The program as the seed has it: a set of what this process executes, asked at each tick."""
    active = set()
    gone = sqlite_store.connect()
    gone.enqueue({"reportId": "monthly-1"}, job_id="report-1", queue="reports", max_recoveries=1)
    gone.engine.claim(worker="gone", queues=None, limit=1, lease=None, keep=False).wait()
    queue = sqlite_store.reopen()
    if is_alive:
        active.add("report-1")

    def execute(claimed, _cancel):
        active.add(claimed.job_id)
        try:
            return Completed()
        finally:
            active.discard(claimed.job_id)

    with watchdog(queue, execute, is_alive=lambda running: running.job_id in active) as dog:
        tick = dog.tick()
    if is_alive:
        assert tick == Tick(kind="idle")
    else:
        assert tick == Tick(kind="settled", job_id="report-1", outcome=Completed(), recovered=("report-1",))


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (None, "settled"),
        (Failed("why", retry=False), "settled"),
        (Failed("why"), "retried"),
        (Snooze(5), "snoozed"),
        (Release(), "released"),
        (ValueError("broken"), "retried"),
    ],
    ids=repr,
)
def test_every_report_is_recorded_as_under_leases(queue, answer, kind):
    queue.enqueue(job_id="a", max_attempts=2)
    with watchdog(queue, executor_of(answer), is_alive=never) as dog:
        assert dog.tick().kind == kind


def test_its_claims_have_no_lease_end_and_no_recovery_touches_them_however_long(sqlite_store, queue):
    queue.enqueue(job_id="a")
    other = sqlite_store.connect()

    def execute(job, token):
        record = other.read(job.job_id)
        assert (record.state, record.lease_until) == ("running", None)
        for _ in range(5):
            sqlite_store.advance(1_000_000)
            assert other.recover() == ((), ())
            assert other.claim() == []
        assert token.aborted is False
        assert queue.renew(job) is None
        assert other.read(job.job_id).lease_until is None
        return Completed("after weeks")

    with watchdog(queue, execute, is_alive=never) as dog:
        assert dog.tick().outcome == Completed("after weeks")
    assert (queue.read("a").attempts, queue.read("a").recoveries) == (1, 0)
    assert sqlite_store.held(queue) == 0


def test_a_restarted_machine_recovers_none_of_them_either(sqlite_store):
    abandon(sqlite_store, "a")
    sqlite_store.clock.reboot("second")
    queue = sqlite_store.reopen()
    assert queue.recover() == ((), ())
    assert queue.read("a").state == "running"


def test_a_claim_whose_execution_is_gone_is_recovered_and_runs_again(sqlite_store, queue):
    abandon(sqlite_store, "a", max_recoveries=1)
    seen = []

    def execute(job, _token):
        seen.append((job.attempt, job.recoveries, job.last_error))

    with watchdog(queue, execute, is_alive=lambda _record: False) as dog:
        assert dog.tick() == Tick(kind="settled", job_id="a", outcome=Completed(), recovered=("a",))
    ((attempt, recoveries, last_error),) = seen
    assert (attempt, recoveries) == (2, 1)
    assert "lost" in last_error
    assert "gone" in last_error


def test_the_probe_is_given_the_record_of_the_job(sqlite_store, queue):
    abandon(sqlite_store, "a", payload={"n": 1}, queue="mail", lane="acme")
    expected = everything(queue.read("a"))
    records = []

    def is_alive(record):
        records.append(record)
        return True

    with watchdog(queue, executor_of(None), is_alive=is_alive) as dog:
        assert dog.tick() == Tick(kind="idle")
    assert [everything(record) for record in records] == [expected]
    assert (expected["state"], expected["worker"], expected["attempts"]) == ("running", "gone", 1)


@pytest.mark.parametrize(
    ("budgets", "kind"),
    [
        ({}, "recovered"),
        ({"max_recoveries": 0}, "interrupted"),
        ({"max_recoveries": 2}, "recovered"),
        ({"max_attempts": 1}, "interrupted"),
        ({"max_attempts": 2}, "recovered"),
        ({"max_attempts": 2, "max_recoveries": 0}, "interrupted"),
    ],
    ids=repr,
)
def test_a_dead_claim_is_put_back_or_interrupted_by_its_budgets(sqlite_store, queue, budgets, kind):
    abandon(sqlite_store, "a", **budgets)
    queue.enqueue(job_id="other", priority=100)
    with watchdog(queue, executor_of(None), is_alive=lambda _record: False) as dog:
        tick = dog.tick()
    assert (tick.recovered, tick.interrupted) == ((("a",), ()) if kind == "recovered" else ((), ("a",)))
    assert tick.job_id == "other"
    record = queue.read("a")
    assert record.state == ("queued" if kind == "recovered" else "settled")
    assert "lost" in record.error
    if kind == "interrupted":
        assert record.outcome.kind == "interrupted"


def test_a_claim_that_is_alive_is_left_alone(sqlite_store, queue):
    abandon(sqlite_store, "a")
    before = everything(queue.read("a"))
    with watchdog(queue, executor_of(None), is_alive=lambda _record: True) as dog:
        for _ in range(5):
            assert dog.tick() == Tick(kind="idle")
    assert everything(queue.read("a")) == before


def test_a_probe_that_raises_leaves_the_claim_and_says_so(sqlite_store, queue, caplog):
    abandon(sqlite_store, "a", max_recoveries=0)
    before = everything(queue.read("a"))
    probe = Probe({"a": OSError("the supervisor does not answer")})
    with watchdog(queue, executor_of(None), is_alive=probe) as dog, caplog.at_level(logging.WARNING, "bandog"):
        for _ in range(3):
            assert dog.tick() == Tick(kind="liveness_unknown", unknown="a")
    assert everything(queue.read("a")) == before
    assert probe.asked == ["a"] * 3
    assert "the supervisor does not answer" in caplog.text


def test_ready_work_runs_all_the_same_while_the_liveness_of_another_is_unknown(sqlite_store, queue):
    abandon(sqlite_store, "a")
    queue.ingest_many([Job(job_id="b"), Job(job_id="c")])
    with watchdog(queue, executor_of(None), is_alive=Probe({"a": OSError("?")})) as dog:
        ticks = [dog.tick() for _ in range(3)]
    assert [(tick.kind, tick.job_id, tick.unknown) for tick in ticks] == [
        ("settled", "b", "a"),
        ("settled", "c", "a"),
        ("liveness_unknown", None, "a"),
    ]
    assert queue.read("a").state == "running"


def test_ctrl_c_in_a_probe_goes_up_and_changes_nothing(sqlite_store, queue):
    abandon(sqlite_store, "a")
    queue.enqueue(job_id="b")
    before = everything(queue.read("a"))
    probe = Probe({"a": KeyboardInterrupt()})
    with watchdog(queue, executor_of(None), is_alive=probe) as dog:
        with pytest.raises(KeyboardInterrupt):
            dog.tick()
        assert everything(queue.read("a")) == before
        assert queue.read("b").attempts == 0
        probe.answers = {"a": True}
        assert dog.tick().job_id == "b"


def test_the_oldest_claim_is_asked_about_first_and_one_per_tick(sqlite_store, queue):
    abandon(sqlite_store, "c", "a", "b", max_recoveries=0)
    probe = Probe({})
    with watchdog(queue, executor_of(None), is_alive=probe) as dog:
        assert [dog.tick().interrupted for _ in range(4)] == [("c",), ("a",), ("b",), ()]
    assert probe.asked == ["c", "a", "b"]


def test_the_others_have_their_turn_beside_one_that_is_unknown_for_ever(sqlite_store, queue):
    abandon(sqlite_store, "a", "b", "c", "d", max_recoveries=0)
    probe = Probe({"a": OSError("?"), "c": True})
    with watchdog(queue, executor_of(None), is_alive=probe) as dog:
        ticks = [dog.tick() for _ in range(8)]
    assert probe.asked == ["a", "b", "c", "d", "a", "c", "a", "c"]
    assert [tick.interrupted for tick in ticks if tick.interrupted] == [("b",), ("d",)]
    assert [queue.read(job_id).state for job_id in "abcd"] == ["running", "settled", "running", "settled"]


def test_a_new_runtime_begins_with_the_oldest(sqlite_store, queue):
    abandon(sqlite_store, "a", "b")
    probe = Probe({"a": True, "b": True})
    for _ in range(2):
        with watchdog(queue, executor_of(None), is_alive=probe) as dog:
            dog.tick()
    assert probe.asked == ["a", "a"]


def test_claims_of_the_same_moment_are_asked_about_in_order_of_admission(queue):
    queue.ingest_many(Job(job_id=job_id) for job_id in "abc")
    queue.engine.claim(worker="gone", queues=None, limit=3, lease=None, keep=False).wait()
    probe = Probe(dict.fromkeys("abc", True))
    with watchdog(queue, executor_of(None), is_alive=probe) as dog:
        for _ in range(4):
            dog.tick()
    assert probe.asked == ["a", "b", "c", "a"]


def test_a_job_that_is_settled_while_it_is_asked_about_keeps_its_outcome(queue):
    queue.enqueue(job_id="a")
    claims, _, _, _ = queue.engine.claim(worker="gone", queues=None, limit=1, lease=None, keep=False).wait()

    def is_alive(_record):
        queue.acknowledge(claims[0], "in the last moment")
        return False

    with watchdog(queue, executor_of(None), is_alive=is_alive) as dog:
        assert dog.tick() == Tick(kind="idle")
    assert queue.read("a").outcome == Completed("in the last moment")


def test_a_job_that_was_recovered_and_claimed_again_is_not_taken_for_the_old_one(sqlite_store, queue):
    abandon(sqlite_store, "a", max_attempts=9)

    def is_alive(record):
        assert record.attempts == 1
        # Somebody else deals with it while the host is asked.
        _, _, number, token = queue.engine.probe(None).wait()
        assert queue.engine.recover_claim(number, token).wait() == (("a",), ())
        claim_one(queue, "a", lease=LEASE)
        return False

    with watchdog(queue, executor_of(None), is_alive=is_alive) as dog:
        assert dog.tick() == Tick(kind="idle")
    record = queue.read("a")
    assert (record.state, record.attempts, record.recoveries) == ("running", 2, 1)


def test_the_token_of_a_claim_that_was_recovered_is_stale(queue):
    queue.enqueue(job_id="a")
    (old,), _, _, _ = queue.engine.claim(worker="gone", queues=None, limit=1, lease=None, keep=False).wait()
    with watchdog(queue, executor_of(None), is_alive=lambda _record: False) as dog:
        dog.tick()
    with pytest.raises(StaleClaim):
        queue.acknowledge(old)
    with pytest.raises(StaleClaim):
        queue.renew(old)


# Beside it


def test_the_pull_api_works_beside_it_on_leases_of_its_own(sqlite_store, queue):
    other = sqlite_store.connect()
    other.ingest_many([Job(job_id="pulled"), Job(job_id="lost"), Job(job_id="run")])
    pulled = claim_one(other, "pulled", lease=10 * LEASE)
    claim_one(other, "lost", lease=LEASE)
    with watchdog(queue, executor_of(None), is_alive=never) as dog:
        assert dog.tick().job_id == "run"
        sqlite_store.advance(LEASE + 1)
        assert other.renew(pulled) is None
        # Its expired lease is recovered by the tick, as everywhere, and nobody is asked about it.
        assert dog.tick() == Tick(kind="settled", job_id="lost", outcome=Completed(), recovered=("lost",))
        assert other.acknowledge(pulled).kind == "completed"


def test_a_cancellation_from_elsewhere_comes_within_ten_seconds(sqlite_store, queue):
    queue.enqueue(job_id="a", max_attempts=9)
    elsewhere = sqlite_store.connect()

    def execute(_job, token):
        assert elsewhere.cancel("a", "from elsewhere").kind == "requested"
        sqlite_store.advance(10.001)
        assert token.wait(30) is True
        return Cancelled(token.detail)

    with watchdog(queue, execute, is_alive=never) as dog:
        assert dog.tick().outcome == Cancelled("from elsewhere")


def test_a_dead_claim_whose_cancellation_was_asked_for_is_interrupted(sqlite_store, queue):
    abandon(sqlite_store, "a", max_attempts=9, max_recoveries=9)
    assert queue.cancel("a").kind == "requested"
    with watchdog(queue, executor_of(None), is_alive=lambda _record: False) as dog:
        assert dog.tick() == Tick(kind="idle", interrupted=("a",))
    assert queue.read("a").outcome.kind == "interrupted"


def test_a_timeout_is_told_under_a_probe_too(sqlite_store, queue):
    queue.enqueue(job_id="a", timeout=30)

    def execute(_job, token):
        sqlite_store.advance(31)
        assert token.wait(30) is True
        return Failed(token.reason)

    with watchdog(queue, execute, is_alive=never) as dog:
        assert dog.tick().outcome == Failed("timeout")


def test_a_tick_is_single_flight_and_asks_nobody_meanwhile(queue):
    queue.enqueue(job_id="a")

    def execute(_job, _token):
        assert Background(dog.tick).join() == Tick(kind="busy")

    with watchdog(queue, execute, is_alive=never) as dog:
        assert dog.tick().outcome == Completed()
