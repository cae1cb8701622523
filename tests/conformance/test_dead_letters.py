"""Dead letters: jobs that failed or were interrupted, in the order in which they were settled, page by page."""

import pytest
from steps import LEASE, claim_one, everything

from bandog import Cancelled, Completed, Failed, Interrupted, InvalidJob, Job, OutcomeUnknown, Page


def fail(queue, *job_ids, **fields):
    """Make dead letters, in this order."""
    queue_name = fields.pop("queue_name", "default")
    for job_id in job_ids:
        queue.ingest(Job(job_id=job_id, queue=queue_name, priority=99, **fields))
        queue.fail(claim_one(queue, job_id), f"why {job_id}")


def ids(page):
    return [record.job_id for record in page]


def pages(queue, limit, between=None, /, **options):
    """The ids of every page; ``between`` is called after each of them with the number of pages so far."""
    found, after = [], None
    while True:
        page = queue.dead_letters(limit=limit, after=after, **options)
        assert len(page) <= limit
        found.append(ids(page))
        after = page.next
        if after is None:
            return found
        assert len(page) == limit
        if between:
            between(len(found))


def test_there_are_none_at_first(queue):
    assert queue.dead_letters() == Page((), None)
    queue.enqueue(job_id="a")
    claim_one(queue, "a")
    assert queue.dead_letters() == Page((), None)


def test_failed_and_interrupted_jobs_are_listed_and_no_others(store, queue):
    for job_id in ("completed", "cancelled", "unknown", "failed", "interrupted", "retried", "queued"):
        queue.enqueue(job_id=job_id, max_attempts=2 if job_id == "retried" else None, max_recoveries=0)
    claims = {claim.job_id: claim for claim in queue.claim(limit=6, lease=LEASE)}
    queue.acknowledge(claims["completed"])
    queue.cancelled(claims["cancelled"])
    queue.outcome_unknown(claims["unknown"], "?")
    queue.fail(claims["retried"], "again", retry_in=10_000)
    queue.fail(claims["failed"], "broken")
    store.advance(LEASE + 1)
    queue.recover()
    page = queue.dead_letters()
    assert ids(page) == ["failed", "interrupted"]
    failed, interrupted = page.jobs
    assert (failed.outcome, failed.error, failed.attempts) == (Failed("broken"), "broken", 1)
    assert isinstance(interrupted.outcome, Interrupted)
    assert [everything(record) for record in page] == [everything(queue.read(job_id)) for job_id in ids(page)]
    assert {queue.read(job_id).outcome for job_id in ("completed", "cancelled")} == {Completed(), Cancelled()}
    assert queue.read("unknown").outcome == OutcomeUnknown("?")


def test_they_come_in_the_order_in_which_they_were_settled(store, queue):
    jobs = [Job(job_id=f"{number}", max_recoveries=0) for number in range(6)]
    queue.ingest_many(jobs)
    claims = {claim.job_id: claim for claim in queue.claim(limit=6, lease=LEASE)}
    for job_id in "413":
        queue.fail(claims[job_id], "why")
        store.advance(1)
    store.advance(LEASE + 1)
    queue.recover()
    store.advance(1)
    fail(queue, "last")
    assert ids(queue.dead_letters())[:3] == ["4", "1", "3"]
    assert ids(queue.dead_letters())[3:] == ["0", "2", "5", "last"]
    assert ids(store.reopen().dead_letters()) == ["4", "1", "3", "0", "2", "5", "last"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 100])
def test_pages_put_together_are_the_list(store, queue, limit):
    for number in range(7):
        fail(queue, f"{number}")
        if number % 3:
            store.advance(1)
    found = pages(queue, limit)
    assert [job_id for page in found for job_id in page] == list("0123456")
    assert len(found) == -(-7 // limit)


def test_many_that_were_settled_at_the_same_moment_are_neither_repeated_nor_skipped(queue):
    count = 50
    queue.ingest_many(Job(job_id=f"{number:02}") for number in range(count))
    queue.settle_many((claim, Failed("why")) for claim in queue.claim(limit=count))
    found = pages(queue, 7)
    assert [job_id for page in found for job_id in page] == [f"{number:02}" for number in range(count)]


def test_a_page_iterates_counts_and_shows_where_to_go_on(queue):
    fail(queue, "a", "b", "c")
    page = queue.dead_letters(limit=2)
    assert (len(page), ids(page), type(page.jobs)) == (2, ["a", "b"], tuple)
    rest = queue.dead_letters(limit=2, after=page.next)
    assert (ids(rest), rest.next) == (["c"], None)
    assert ids(queue.dead_letters(limit=2, after=page.next)) == ["c"], "a cursor may be used again"


def test_pages_stay_put_while_jobs_are_added_settled_requeued_and_purged(store, queue):
    first = [f"{number:02}" for number in range(20)]
    for job_id in first:
        fail(queue, job_id)
        store.advance(1)
    gone = {"04": "requeued", "10": "requeued", "00": "purged"}

    def between(page):
        fail(queue, f"new-{page}")
        queue.enqueue(job_id=f"waiting-{page}", delay=10_000)
        store.advance(1)
        if page == 1:
            queue.requeue("10")
            queue.cancel("10")
            queue.requeue("04")
            queue.cancel("04")
            queue.purge(older_than=0, limit=1)

    found = [job_id for page in pages(queue, 3, between) for job_id in page]
    assert len(found) == len(set(found)), "none is repeated"
    stayed = [job_id for job_id in first if job_id not in gone]
    assert [job_id for job_id in found if job_id in stayed] == stayed, "none that was there all the time is skipped"
    assert [job_id for job_id in found if job_id.startswith("new-")][:3] == ["new-1", "new-2", "new-3"]
    assert not [job_id for job_id in found if job_id.startswith("waiting-")]


def test_the_job_that_a_page_ended_with_may_be_gone(store, queue):
    for job_id in "abcd":
        fail(queue, job_id)
        store.advance(1)
    page = queue.dead_letters(limit=2)
    assert ids(page) == ["a", "b"]
    queue.purge(older_than=0, limit=2)
    assert ids(queue.dead_letters(limit=2, after=page.next)) == ["c", "d"]


def test_a_requeued_job_that_fails_again_comes_last(store, queue):
    for job_id in "abc":
        fail(queue, job_id)
        store.advance(1)
    page = queue.dead_letters(limit=1)
    queue.requeue("a")
    queue.fail(claim_one(queue, "a"), "again")
    assert ids(queue.dead_letters(after=page.next)) == ["b", "c", "a"]


@pytest.mark.parametrize("limit", [1, 100])
def test_a_queue_may_be_named(store, queue, limit):
    for number in range(6):
        fail(queue, f"mail-{number}", queue_name="mail")
        fail(queue, f"sms-{number}", queue_name="sms")
        store.advance(1)
    found = pages(queue, limit, queue="sms")
    assert [job_id for page in found for job_id in page] == [f"sms-{number}" for number in range(6)]
    assert queue.dead_letters(queue="nobody") == Page((), None)


def test_without_a_limit_a_page_has_a_hundred(queue):
    queue.ingest_many(Job() for _ in range(130))
    queue.settle_many((claim, Failed("why")) for claim in queue.claim(limit=130))
    page = queue.dead_letters()
    assert (len(page), len(queue.dead_letters(after=page.next))) == (100, 30)


WRONG = [
    ("queue", {"queue": 5}),
    ("queue", {"queue": ["mail"]}),
    ("queue", {"queue": "lone \ud800"}),
    ("after", {"after": ""}),
    ("after", {"after": "a"}),
    ("after", {"after": "1"}),
    ("after", {"after": "1.2.3"}),
    ("after", {"after": "1.x"}),
    ("after", {"after": f"{2**70}.1"}),
    ("after", {"after": 5}),
    ("limit", {"limit": 0}),
    ("limit", {"limit": -1}),
    ("limit", {"limit": 2**32}),
    ("limit", {"limit": True}),
    ("limit", {"limit": 1.0}),
    ("limit", {"limit": None}),
]


@pytest.mark.parametrize(("field", "arguments"), WRONG, ids=ascii)
def test_an_argument_that_is_not_allowed_is_named(queue, field, arguments):
    fail(queue, "a")
    with pytest.raises(InvalidJob) as caught:
        queue.dead_letters(**arguments)
    assert caught.value.field == field
    assert field in str(caught.value)


def test_the_largest_limit_is_accepted(queue):
    fail(queue, "a")
    assert ids(queue.dead_letters(limit=2**32 - 1)) == ["a"]
