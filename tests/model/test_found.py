"""What the machine found, each as short as it gets."""

from datetime import timedelta

import pytest
from steps import claim_one

from bandog import Completed, Job, Watchdog

HOUR = 3600.0


@pytest.mark.parametrize("answer", [None, Completed()], ids=repr)
def test_a_tick_shows_what_was_recorded_where_the_executor_settled_by_itself(sqlite_store, answer):
    queue = sqlite_store.connect()
    queue.enqueue(job_id="a")

    def execute(claim, _token):
        queue.acknowledge(claim, "by itself")
        return answer

    done = Watchdog(queue, execute).tick()
    assert queue.read("a").outcome == Completed("by itself")
    assert (done.kind, done.outcome) == ("settled", Completed("by itself"))


def test_a_queue_that_did_not_write_meanwhile_notices_a_clock_that_was_wrong_for_a_while(sqlite_store):
    """To it the clock stands where it stood, but a job was admitted under the wrong time."""
    busy, idle = sqlite_store.connect(), sqlite_store.connect()
    sqlite_store.clock.step_wall(HOUR)
    busy.enqueue(job_id="a")
    sqlite_store.clock.step_wall(-HOUR)
    assert idle.next_wake() <= sqlite_store.now()
    claim_one(idle, "a")


def test_the_next_wake_after_a_set_back_looks_behind_a_job_that_waits_on_purpose(sqlite_store):
    queue = sqlite_store.connect()
    queue.enqueue(job_id="waits", available_at=sqlite_store.now() + timedelta(seconds=10))
    sqlite_store.clock.step_wall(20)
    queue.enqueue(job_id="may run at once")
    sqlite_store.clock.step_wall(-40)
    assert queue.next_wake() <= sqlite_store.now()


@pytest.fixture
def bounded(queue):
    """A lane with a bound, which is far away."""
    queue.set_lane_limit("default", "bounded", 10)
    return "bounded"


def test_of_two_jobs_with_one_id_in_a_call_the_first_is_admitted_whatever_its_lane(queue, bounded):
    answers = queue.ingest_many([Job(job_id="a", lane=bounded), Job(job_id="a", lane="free")])
    assert [answer.kind for answer in answers] == ["admitted", "conflict"]
    assert queue.read("a").lane == bounded


def test_jobs_of_one_call_are_admitted_in_its_order_whatever_their_lanes(queue, bounded):
    queue.ingest_many([Job(job_id="a", lane=bounded), Job(job_id="b", lane="free")])
    assert [record.job_id for record in queue.jobs()] == ["a", "b"]
    assert [claim.job_id for claim in queue.claim(limit=2)] == ["a", "b"]


def test_a_repeated_settle_does_not_answer_with_the_due_time_of_a_later_put_back(store, queue):
    """What was recorded for the claim is that it was retried; where recovery put the job since is another matter."""
    queue.enqueue(job_id="a", max_attempts=9)
    claim = claim_one(queue, "a")
    recorded = queue.fail(claim, "why", retry_in=5)
    store.advance(5)
    claim_one(queue, "a", lease=1)
    store.advance(2)
    assert queue.recover() == (("a",), ())
    again = queue.fail(claim, "why", retry_in=5)
    assert again.kind == recorded.kind == "retried"
    assert again.available_at in (recorded.available_at, None)
