"""Jobs: a list in order of admission, page by page, with filters."""

import itertools

import pytest
from steps import LEASE, claim_one, everything

from bandog import Cancelled, Completed, Failed, InvalidJob, Job, OutcomeUnknown, Page

STATES = [None, "queued", "running", "settled"]


def ids(page):
    return [record.job_id for record in page]


def pages(queue, limit, between=None, /, **filters):
    """The ids of all pages together; ``between`` is called after each of them with the number of pages so far."""
    found, after = [], None
    for number in itertools.count(1):
        page = queue.jobs(limit=limit, after=after, **filters)
        assert len(page) <= limit
        found += ids(page)
        after = page.next
        if after is None:
            return found
        assert len(page) == limit
        if between:
            between(number)
    return found


REPORTS = [Completed(), Failed("why"), Cancelled(), OutcomeUnknown()]


@pytest.fixture
def mixed(store, queue):
    """Forty-eight jobs in two queues, two lanes, three states and all outcomes."""
    for number in range(48):
        queue.enqueue(
            job_id=f"{number:02}",
            queue="mail" if number % 2 else "sms",
            lane="acme" if number % 3 else "default",
            max_recoveries=0,
        )
    claims = queue.claim(limit=32, lease=10_000)
    for claim, report in zip(claims[:16], itertools.cycle(REPORTS), strict=False):
        queue.settle(claim, report)
    for claim in claims[16:20]:
        queue.renew(claim, lease=1)
    store.advance(2)
    queue.recover()
    return {record.job_id: record for record in map(queue.read, (f"{number:02}" for number in range(48)))}


def test_there_are_none_at_first(queue):
    for state in STATES:
        assert queue.jobs(state=state) == Page((), None)


def test_all_jobs_come_in_order_of_admission_whatever_their_state(queue, mixed):
    page = queue.jobs()
    assert ids(page) == sorted(mixed)
    assert page.next is None
    assert [everything(record) for record in page] == [everything(mixed[job_id]) for job_id in sorted(mixed)]


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        *((state, None) for state in STATES),
        *(("settled", kind) for kind in ("completed", "failed", "cancelled", "outcome_unknown", "interrupted")),
        (None, "failed"),
    ],
)
def test_every_filter_and_all_of_them_together_choose_what_they_say(queue, mixed, state, outcome):
    for queue_name, lane in itertools.product([None, "mail", "nobody"], [None, "acme", "default", "nobody"]):
        expected = [
            job_id
            for job_id, record in sorted(mixed.items())
            if state in (None, record.state)
            and (outcome is None or (record.outcome is not None and record.outcome.kind == outcome))
            and queue_name in (None, record.queue)
            and lane in (None, record.lane)
        ]
        assert bool(expected) == ("nobody" not in (queue_name, lane)) or outcome, (queue_name, lane)
        filters = {"state": state, "outcome": outcome, "queue": queue_name, "lane": lane}
        for limit in (1, 3, 100):
            assert pages(queue, limit, **filters) == expected, (queue_name, lane, limit)
    assert pages(queue, 9, state=state, outcome=outcome), "there are some"


@pytest.mark.parametrize("limit", [1, 2, 5, 6, 7, 2**32 - 1])
def test_the_last_page_says_that_it_is_the_last(queue, limit):
    queue.ingest_many(Job(job_id=f"{number}") for number in range(6))
    assert pages(queue, limit) == list("012345")


def test_pages_stay_put_while_jobs_are_added_settled_and_purged(store, queue):
    first = [f"{number:02}" for number in range(20)]
    queue.ingest_many(Job(job_id=job_id) for job_id in first)

    def between(page):
        queue.enqueue(job_id=f"new-{page}")
        store.advance(1)
        for claim in queue.claim(limit=3, lease=LEASE):
            queue.acknowledge(claim)
        store.advance(1)
        # Some that were listed already, and some that were not.
        queue.purge(older_than=0, limit=2)

    found = pages(queue, 3, between)
    assert len(found) == len(set(found)), "none is repeated"
    stayed = [job_id for job_id in first if job_id in {record.job_id for record in queue.jobs()}]
    assert stayed
    assert [job_id for job_id in found if job_id in stayed] == stayed, "none that was there all the time is skipped"
    assert [job_id for job_id in found if job_id.startswith("new-")][:2] == ["new-1", "new-2"]


def test_pages_of_one_state_stay_put_while_jobs_leave_it(queue):
    queue.ingest_many(Job(job_id=f"{number:02}") for number in range(20))

    def between(_page):
        queue.claim(limit=1)

    found = pages(queue, 4, between, state="queued")
    # Those that were claimed before they were reached are not queued any more; none was skipped for it.
    assert found == [f"{number:02}" for number in range(20)]


def test_a_cursor_may_be_used_again_and_with_other_filters(queue):
    queue.ingest_many(Job(job_id=f"{number}", queue="mail" if number % 2 else "sms") for number in range(8))
    page = queue.jobs(limit=4)
    for _ in range(2):
        assert ids(queue.jobs(after=page.next)) == list("4567")
    assert ids(queue.jobs(after=page.next, queue="mail")) == ["5", "7"]
    assert ids(queue.jobs(after=page.next, state="settled")) == []


def test_the_job_that_a_page_ended_with_may_be_gone(store, queue):
    queue.ingest_many(Job(job_id=job_id) for job_id in "abcd")
    page = queue.jobs(limit=2)
    for claim in queue.claim(limit=2):
        queue.acknowledge(claim)
    store.advance(1)
    assert queue.purge(older_than=0) == 2
    assert ids(store.reopen().jobs(after=page.next)) == ["c", "d"]


def test_a_requeued_or_recovered_job_keeps_its_place(store, queue):
    queue.ingest_many(Job(job_id=job_id) for job_id in "abc")
    first, second = queue.claim(limit=2, lease=LEASE)
    queue.fail(first, "why")
    queue.requeue(first.job_id)
    store.advance(LEASE + 1)
    assert queue.recover() == ((second.job_id,), ())
    assert ids(queue.jobs(state="queued")) == ["a", "b", "c"]


def test_an_id_that_is_ingested_again_after_a_purge_comes_last(store, queue):
    queue.ingest_many(Job(job_id=job_id) for job_id in "abc")
    queue.acknowledge(claim_one(queue, "a"))
    store.advance(1)
    queue.purge(older_than=0)
    queue.enqueue(job_id="a")
    assert ids(queue.jobs()) == ["b", "c", "a"]


def test_without_a_limit_a_page_has_a_hundred(queue):
    queue.ingest_many(Job() for _ in range(130))
    page = queue.jobs()
    assert (len(page), len(queue.jobs(after=page.next))) == (100, 30)


WRONG = [
    ("state", {"state": "done"}),
    ("state", {"state": ""}),
    ("state", {"state": 5}),
    ("state", {"state": ["queued"]}),
    ("outcome", {"outcome": "done"}),
    ("outcome", {"outcome": 5}),
    ("outcome", {"outcome": "failed", "state": "queued"}),
    ("outcome", {"outcome": "failed", "state": "running"}),
    ("queue", {"queue": 5}),
    ("queue", {"queue": "lone \ud800"}),
    ("lane", {"lane": 5}),
    ("lane", {"lane": "lone \ud800"}),
    ("after", {"after": "x"}),
    ("after", {"after": ""}),
    ("after", {"after": 5}),
    ("limit", {"limit": 0}),
    ("limit", {"limit": -1}),
    ("limit", {"limit": 2**32}),
    ("limit", {"limit": True}),
    ("limit", {"limit": "3"}),
    ("limit", {"limit": None}),
]


@pytest.mark.parametrize(("field", "arguments"), WRONG, ids=ascii)
def test_an_argument_that_is_not_allowed_is_named(queue, field, arguments):
    queue.enqueue(job_id="a")
    with pytest.raises(InvalidJob) as caught:
        queue.jobs(**arguments)
    assert caught.value.field == field
    assert field in str(caught.value)
