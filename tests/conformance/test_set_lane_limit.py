"""Lane limits: how many jobs of a lane may be queued, checked in the transaction that stores them."""

import pytest
from steps import LEASE, Background, claim_one, claimed_ids, everything

from bandog import Failed, InvalidJob, Job, JobConflict, JobNotFound, LaneFull, Release, Snooze

LANES = ["acme", "default"]


def numbered(count, **fields):
    return [Job(job_id=f"job-{number:03}", **fields) for number in range(count)]


def kinds(admissions):
    return [admission.kind for admission in admissions]


@pytest.fixture(params=LANES)
def lane(request):
    return request.param


@pytest.fixture
def bounded(queue, lane):
    """A queue whose lane takes three jobs."""
    queue.set_lane_limit("mail", lane, 3)
    return queue


def full(queue, lane):
    """Whether the lane takes no further job."""
    try:
        queue.enqueue(job_id="probe", queue="mail", lane=lane)
    except LaneFull:
        return True
    queue.cancel("probe")
    return False


def test_a_lane_takes_as_many_jobs_as_its_limit_and_no_more(bounded, lane):
    for number in range(3):
        assert bounded.enqueue(job_id=f"{number}", queue="mail", lane=lane).kind == "admitted"
    with pytest.raises(LaneFull) as caught:
        bounded.enqueue({"secret": 1}, job_id="one too many", queue="mail", lane=lane)
    error = caught.value
    assert (error.job_id, error.queue, error.lane, error.limit) == ("one too many", "mail", lane, 3)
    for named in ("one too many", "mail", lane, "3"):
        assert named in str(error)
    assert "secret" not in str(error)
    with pytest.raises(JobNotFound):
        bounded.read("one too many")
    assert len(claimed_ids(bounded)) == 3


def test_a_job_that_was_refused_is_admitted_when_there_is_room(bounded, lane):
    bounded.ingest_many(numbered(3, queue="mail", lane=lane))
    job = Job(job_id="again", queue="mail", lane=lane)
    with pytest.raises(LaneFull):
        bounded.ingest(job)
    claim_one(bounded)
    assert bounded.ingest(job).kind == "admitted"
    with pytest.raises(LaneFull):
        bounded.enqueue(queue="mail", lane=lane)


def test_queued_jobs_count_whether_due_or_not_and_no_others_do(bounded, lane):
    bounded.ingest_many(numbered(2, queue="mail", lane=lane))
    first, second = bounded.claim(limit=2)
    bounded.enqueue(job_id="later", queue="mail", lane=lane, delay=1000)
    assert kinds(bounded.ingest_many(Job(queue="mail", lane=lane) for _ in range(3))) == [
        "admitted",
        "admitted",
        "refused",
    ]
    bounded.acknowledge(first)
    bounded.acknowledge(second)
    assert full(bounded, lane)
    bounded.cancel("later")
    assert not full(bounded, lane)


def test_many_at_once_are_admitted_up_to_the_limit_and_the_rest_is_refused(bounded, lane):
    admissions = bounded.ingest_many(numbered(5, queue="mail", lane=lane))
    assert kinds(admissions) == ["admitted"] * 3 + ["refused"] * 2
    assert [admission.job_id for admission in admissions] == [f"job-{number:03}" for number in range(5)]
    assert [admission.limit for admission in admissions] == [None, None, None, 3, 3]
    assert [admission.job is None for admission in admissions] == [False, False, False, True, True]
    assert admissions[3].difference is None
    assert claimed_ids(bounded) == ["job-000", "job-001", "job-002"]


def test_one_call_mixes_all_four_answers_and_other_lanes(bounded, lane):
    other = "acme" if lane == "default" else "default"
    bounded.ingest_many([Job(job_id="same", payload=1, queue="mail", lane=lane), Job(job_id="taken", payload=1)])
    admissions = bounded.ingest_many(
        [
            Job(job_id="first", queue="mail", lane=lane),
            Job(job_id="same", payload=1, queue="mail", lane=lane),
            Job(job_id="second", queue="mail", lane=lane),
            Job(job_id="too many", queue="mail", lane=lane),
            Job(job_id="elsewhere", queue="mail", lane=other),
            Job(job_id="other queue", queue="sms", lane=lane),
            Job(job_id="same", payload=1, queue="mail", lane=lane),
            Job(job_id="taken", payload=2, queue="mail", lane=lane),
            Job(job_id="first", queue="mail", lane=lane),
            Job(job_id="too many", queue="mail", lane=lane),
        ]
    )
    assert kinds(admissions) == [
        "admitted",
        "duplicate",
        "admitted",
        "refused",
        "admitted",
        "admitted",
        "duplicate",
        "conflict",
        "duplicate",
        "refused",
    ]


def test_replays_and_conflicts_are_answered_before_the_limit(bounded, lane):
    jobs = numbered(3, queue="mail", lane=lane, payload=1)
    bounded.ingest_many(jobs)
    before = everything(bounded.read("job-001"))
    assert bounded.ingest(jobs[1]).kind == "duplicate"
    with pytest.raises(JobConflict):
        bounded.enqueue(2, job_id="job-001", queue="mail", lane=lane)
    assert everything(bounded.read("job-001")) == before
    # So are those of a lane that is closed, and those that have run.
    bounded.set_lane_limit("mail", lane, 0)
    bounded.acknowledge(claim_one(bounded, "job-000"))
    assert bounded.ingest(jobs[0]).kind == "duplicate"
    assert bounded.ingest(jobs[0]).job.state == "settled"


def test_a_limit_of_zero_closes_the_lane(queue, lane):
    queue.enqueue(job_id="before", queue="mail", lane=lane)
    queue.set_lane_limit("mail", lane, 0)
    with pytest.raises(LaneFull) as caught:
        queue.enqueue(queue="mail", lane=lane)
    assert caught.value.limit == 0
    assert claimed_ids(queue) == ["before"]
    with pytest.raises(LaneFull):
        queue.enqueue(queue="mail", lane=lane)


def test_none_removes_the_limit_and_is_allowed_where_there_is_none(bounded, lane):
    bounded.ingest_many(numbered(3, queue="mail", lane=lane))
    assert full(bounded, lane)
    for _ in range(2):
        bounded.set_lane_limit("mail", lane, None)
        assert kinds(bounded.ingest_many(Job(queue="mail", lane=lane) for _ in range(20))) == ["admitted"] * 20
    bounded.set_lane_limit("nobody", "here", None)


def test_the_latest_limit_is_the_one_in_force(bounded, lane):
    bounded.ingest_many(numbered(3, queue="mail", lane=lane))
    bounded.set_lane_limit("mail", lane, 5)
    assert kinds(bounded.ingest_many(Job(queue="mail", lane=lane) for _ in range(3))) == [
        "admitted",
        "admitted",
        "refused",
    ]
    # Below what is queued already: nothing is thrown out.
    bounded.set_lane_limit("mail", lane, 2)
    assert full(bounded, lane)
    assert len(bounded.claim(limit=3)) == 3
    assert full(bounded, lane)
    assert len(bounded.claim(limit=1)) == 1
    assert not full(bounded, lane)


def test_a_limit_is_for_one_lane_of_one_queue(bounded, lane):
    bounded.ingest_many(numbered(3, queue="mail", lane=lane))
    others = [("sms", lane), ("mail", f"{lane} "), ("mail", lane.upper()), ("MAIL", lane), ("mail", "acme-2")]
    for queue_name, lane_name in others:
        assert bounded.enqueue(queue=queue_name, lane=lane_name).kind == "admitted"
    assert full(bounded, lane)


def test_a_limit_is_stored_and_in_force_for_every_handle(store, bounded, lane):
    bounded.ingest_many(numbered(3, queue="mail", lane=lane))
    assert full(store.connect(), lane)
    reopened = store.reopen()
    assert full(reopened, lane)
    store.connect().set_lane_limit("mail", lane, 4)
    assert not full(reopened, lane)


def test_the_largest_limit_is_accepted(queue, lane):
    queue.set_lane_limit("mail", lane, 2**31 - 1)
    assert queue.enqueue(queue="mail", lane=lane).kind == "admitted"


@pytest.mark.parametrize(
    "report", [Failed("again", retry_in=0), Failed("again"), Snooze(0), Snooze(9), Release()], ids=repr
)
def test_a_job_that_is_put_back_is_never_refused(store, queue, lane, report):
    queue.enqueue(job_id="a", queue="mail", lane=lane, max_attempts=9)
    claim = claim_one(queue, "a")
    queue.set_lane_limit("mail", lane, 0)
    assert queue.settle(claim, report).kind in {"retried", "snoozed", "released"}
    store.advance(100)
    assert queue.acknowledge(claim_one(queue, "a")).kind == "completed"


def test_a_recovered_or_requeued_job_is_never_refused(store, queue, lane):
    queue.ingest_many([Job(job_id="lost", queue="mail", lane=lane), Job(job_id="dead", queue="mail", lane=lane)])
    _, dead = queue.claim(limit=2, lease=LEASE)
    queue.fail(dead, "why")
    queue.set_lane_limit("mail", lane, 0)
    store.advance(LEASE + 1)
    assert queue.recover() == (("lost",), ())
    queue.requeue("dead")
    assert sorted(claimed_ids(queue)) == ["dead", "lost"]


def test_two_threads_cannot_overshoot(store, queue, lane):
    queue.set_lane_limit("mail", lane, 50)
    handles = [store.connect(), store.connect()]

    def fill(handle):
        admitted = 0
        for _ in range(20):
            admissions = handle.ingest_many(Job(queue="mail", lane=lane) for _ in range(4))
            admitted += kinds(admissions).count("admitted")
        return admitted

    counts = [filling.join() for filling in [Background(lambda handle=handle: fill(handle)) for handle in handles * 2]]
    assert sum(counts) == 50
    assert len(claimed_ids(queue)) == 50


WRONG = [
    ("queue", {"queue": ""}),
    ("queue", {"queue": None}),
    ("queue", {"queue": "a\tb"}),
    ("lane", {"lane": ""}),
    ("lane", {"lane": 5}),
    ("lane", {"lane": "x" * 256}),
    ("limit", {"limit": -1}),
    ("limit", {"limit": 2**31}),
    ("limit", {"limit": 2**64}),
    ("limit", {"limit": True}),
    ("limit", {"limit": 1.0}),
    ("limit", {"limit": "3"}),
]


@pytest.mark.parametrize(("field", "arguments"), WRONG, ids=ascii)
def test_an_argument_that_is_not_allowed_is_named_and_the_limit_stays(queue, field, arguments):
    queue.set_lane_limit("mail", "acme", 0)
    with pytest.raises(InvalidJob) as caught:
        queue.set_lane_limit(**{"queue": "mail", "lane": "acme", "limit": 5, **arguments})
    assert caught.value.field == field
    assert field in str(caught.value)
    assert full(queue, "acme")
