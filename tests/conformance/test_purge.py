"""Purge: settled jobs are forgotten by age and outcome, so many per call. Queued and running ones never are."""

from datetime import timedelta

import pytest
from steps import LEASE, claim_one, claimed_ids, everything

from bandog import Cancelled, Completed, Failed, InvalidJob, Job, JobNotFound, OutcomeUnknown, StaleClaim

KINDS = ["completed", "failed", "cancelled", "outcome_unknown", "interrupted"]
REPORTS = {
    "completed": Completed(),
    "failed": Failed("why"),
    "cancelled": Cancelled(),
    "outcome_unknown": OutcomeUnknown(),
}


def settle(store, queue, kind, job_id):
    """Make a settled job."""
    queue.enqueue(job_id=job_id, max_recoveries=0)
    claim = claim_one(queue, job_id, lease=LEASE)
    if kind == "interrupted":
        store.advance(LEASE + 1)
        assert queue.recover() == ((), (job_id,))
    else:
        queue.settle(claim, REPORTS[kind])


def there(queue, *job_ids):
    """Those of the jobs that are known."""
    return [job_id for job_id in job_ids if exists(queue, job_id)]


def exists(queue, job_id):
    try:
        queue.read(job_id)
    except JobNotFound:
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_a_settled_job_is_forgotten_when_it_is_old_enough(store, queue, kind):
    settle(store, queue, kind, "a")
    store.advance(99)
    assert queue.purge(older_than=100) == 0
    assert exists(queue, "a")
    store.advance(2)
    assert queue.purge(older_than=100) == 1
    with pytest.raises(JobNotFound):
        queue.read("a")
    with pytest.raises(JobNotFound):
        store.reopen().read("a")


@pytest.mark.parametrize("age", [100, 100.0, timedelta(seconds=100)], ids=repr)
def test_an_age_is_seconds_or_a_timedelta(store, queue, age):
    settle(store, queue, "completed", "a")
    store.advance(50)
    settle(store, queue, "completed", "b")
    store.advance(60)
    assert queue.purge(older_than=age) == 1
    assert there(queue, "a", "b") == ["b"]


def test_an_age_of_zero_forgets_all_that_is_settled(store, queue):
    for kind in KINDS:
        settle(store, queue, kind, kind)
    store.advance(1)
    assert queue.purge(older_than=0) == 5
    assert there(queue, *KINDS) == []


def test_queued_and_running_jobs_are_never_forgotten_however_old(store, queue):
    queue.ingest_many(
        [
            Job(job_id="running"),
            Job(job_id="retried", max_attempts=9),
            Job(job_id="queued"),
            Job(job_id="later", delay=9),
        ]
    )
    _, retried = queue.claim(limit=2, lease=10_000_000)
    queue.fail(retried, "again")
    store.advance(1_000_000)
    before = [everything(queue.read(job_id)) for job_id in ("running", "retried", "queued", "later")]
    for outcomes in (None, KINDS):
        assert queue.purge(older_than=0, outcomes=outcomes) == 0
    assert [everything(queue.read(job_id)) for job_id in ("running", "retried", "queued", "later")] == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plural", [False, True], ids=["str", "list"])
def test_only_the_outcomes_that_are_named_are_forgotten(store, queue, kind, plural):
    for each in KINDS:
        settle(store, queue, each, each)
    store.advance(1)
    assert queue.purge(older_than=0, outcomes=[kind] if plural else kind) == 1
    assert there(queue, *KINDS) == [each for each in KINDS if each != kind]


def test_several_outcomes_are_forgotten_together(store, queue):
    for each in KINDS:
        settle(store, queue, each, each)
    store.advance(1)
    assert queue.purge(older_than=0, outcomes=("failed", "completed", "failed")) == 2
    assert there(queue, *KINDS) == ["cancelled", "outcome_unknown", "interrupted"]


@pytest.mark.parametrize("kind", ["completed", "failed"])
def test_a_call_forgets_as_many_as_its_limit_the_longest_settled_first(store, queue, kind):
    for number in range(7):
        settle(store, queue, kind, f"{number}")
        store.advance(1)
    assert queue.purge(older_than=0, limit=3) == 3
    assert there(queue, *"0123456") == ["3", "4", "5", "6"]
    assert queue.purge(older_than=0, limit=3) == 3
    assert there(queue, *"0123456") == ["6"]
    assert queue.purge(older_than=0, limit=3) == 1
    assert queue.purge(older_than=0, limit=3) == 0


def test_the_longest_settled_are_forgotten_first_whatever_their_outcomes(store, queue):
    order = ["failed", "completed", "cancelled", "completed", "outcome_unknown", "failed"]
    for number, kind in enumerate(order):
        settle(store, queue, kind, f"{number}")
        store.advance(1)
    for gone in range(1, 7):
        assert queue.purge(older_than=0, limit=1) == 1
        assert there(queue, *"012345") == list("012345"[gone:])


def test_the_limit_holds_for_all_outcomes_together(store, queue):
    for number in range(4):
        settle(store, queue, "completed", f"c{number}")
        settle(store, queue, "failed", f"f{number}")
    store.advance(1)
    assert [queue.purge(older_than=0, limit=3) for _ in range(4)] == [3, 3, 2, 0]


def test_without_a_limit_a_call_forgets_a_thousand(store, queue):
    queue.ingest_many(Job() for _ in range(1200))
    queue.settle_many((claim, Completed()) for claim in queue.claim(limit=1200))
    store.advance(1)
    assert [queue.purge(older_than=0) for _ in range(3)] == [1000, 200, 0]


def test_afterwards_the_id_is_free_again(store, queue):
    settle(store, queue, "completed", "a")
    store.advance(1)
    queue.purge(older_than=0)
    admission = queue.enqueue({"other": "content"}, job_id="a", priority=5)
    assert admission.kind == "admitted"
    record = queue.read("a")
    assert (record.state, record.attempts, record.payload) == ("queued", 0, {"other": "content"})


def test_a_claim_on_a_job_that_was_forgotten_meets_no_stranger(store, queue):
    """C36: an order number is never given out twice, and a token never holds for the next job of the same id."""
    queue.enqueue(job_id="a")
    claim = claim_one(queue, "a")
    by_id = (claim.job_id, claim.lease_token)
    queue.acknowledge(claim)
    store.advance(1)
    assert queue.purge(older_than=0) == 1
    for name in (claim, by_id):
        with pytest.raises((JobNotFound, StaleClaim)):
            queue.renew(name)
        with pytest.raises((JobNotFound, StaleClaim)):
            queue.acknowledge(name, "late")
    queue.ingest_many([Job(job_id="a"), Job(job_id="b")])
    taken = {job.job_id: job for job in queue.claim(limit=2, lease=LEASE)}
    before = [everything(queue.read(job_id)) for job_id in "ab"]
    for name in (claim, by_id):
        with pytest.raises((JobNotFound, StaleClaim)):
            queue.fail(name, "late")
    assert [everything(queue.read(job_id)) for job_id in "ab"] == before
    assert queue.acknowledge(taken["a"]).kind == "completed"


def test_a_forgotten_job_is_in_no_list_and_no_count(store, queue):
    settle(store, queue, "failed", "a")
    settle(store, queue, "completed", "b")
    store.advance(1)
    queue.purge(older_than=0)
    assert list(queue.jobs()) == []
    assert list(queue.dead_letters()) == []
    assert set(queue.stats().outcomes.values()) <= {0}
    for call in (lambda: queue.requeue("a"), lambda: queue.cancel("a")):
        with pytest.raises(JobNotFound):
            call()


def test_a_requeued_job_is_not_settled_and_so_not_forgotten(store, queue):
    settle(store, queue, "failed", "a")
    queue.requeue("a")
    store.advance(1000)
    assert queue.purge(older_than=0) == 0
    assert claimed_ids(queue) == ["a"]


WRONG = [
    ("older_than", {"older_than": -1}),
    ("older_than", {"older_than": None}),
    ("older_than", {"older_than": "60"}),
    ("older_than", {"older_than": True}),
    ("older_than", {"older_than": float("nan")}),
    ("older_than", {"older_than": float("inf")}),
    ("older_than", {"older_than": timedelta(seconds=-1)}),
    ("outcomes", {"outcomes": "done"}),
    ("outcomes", {"outcomes": "queued"}),
    ("outcomes", {"outcomes": ["completed", "nothing"]}),
    ("outcomes", {"outcomes": [None]}),
    ("outcomes", {"outcomes": 5}),
    ("outcomes", {"outcomes": []}),
    ("limit", {"limit": 0}),
    ("limit", {"limit": -1}),
    ("limit", {"limit": 2**32}),
    ("limit", {"limit": True}),
    ("limit", {"limit": 1.0}),
    ("limit", {"limit": None}),
]


@pytest.mark.parametrize(("field", "arguments"), WRONG, ids=ascii)
def test_an_argument_that_is_not_allowed_is_named_and_nothing_is_forgotten(store, queue, field, arguments):
    settle(store, queue, "completed", "a")
    store.advance(1)
    with pytest.raises(InvalidJob) as caught:
        queue.purge(**{"older_than": 0, **arguments})
    assert caught.value.field == field
    assert field in str(caught.value)
    assert exists(queue, "a")
