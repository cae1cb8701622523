"""C08: the wait after a millionth failure. SQLite only: nobody waits for a million attempts, so they are written in."""

from datetime import timedelta

import pytest
from steps import claim_one

from bandog import Backoff, Job

ATTEMPTS = (1, 2, 16, 63, 64, 65, 1024, 1100, 1_000_000, 2_000_000_000)
CAP = 3600.0


def waits(store, attempts, backoff, count=1):
    """How long jobs wait, in seconds, whose attempt of this number has failed."""
    queue = store.connect()
    jobs = [Job(job_id=f"{attempts}-{number}", max_attempts=2**31 - 1, backoff=backoff) for number in range(count)]
    queue.ingest_many(jobs)
    store.execute("UPDATE bandog_ready SET attempts = ?, last_error = 'before'", (attempts - 1,))
    found = []
    for job in jobs:
        claim = claim_one(queue, job.job_id)
        assert (claim.attempt, claim.charged) == (attempts, attempts)
        settlement = queue.fail(claim, "again")
        assert settlement.kind == "retried"
        record = queue.read(job.job_id)
        assert (record.state, record.available_at) == ("queued", settlement.available_at)
        found.append((settlement.available_at - store.now()).total_seconds())
        queue.cancel(job.job_id)
    return found


@pytest.mark.parametrize("base", [1.1, 2, 5])
def test_no_number_of_attempts_overflows_the_wait_or_makes_it_shorter(sqlite_store, base):
    before = 0.0
    for attempts in ATTEMPTS:
        (wait,) = waits(sqlite_store, attempts, Backoff(base=base, cap=CAP))
        assert wait == min(CAP, base * 2.0 ** min(attempts - 1, 63))
        assert 0 < before <= wait <= CAP or attempts == 1
        before = wait


@pytest.mark.parametrize("jitter", [0.1, 1.0])
@pytest.mark.parametrize("base", [1.1, 2, 5])
def test_jitter_stays_in_its_band_at_any_number_of_attempts(sqlite_store, base, jitter):
    for attempts in ATTEMPTS:
        full = min(CAP, base * 2.0 ** min(attempts - 1, 63))
        for wait in waits(sqlite_store, attempts, Backoff(base=base, cap=CAP, jitter=jitter), count=20):
            assert 0 < wait <= full
            assert wait >= full * (1 - jitter) - 1e-6


def test_a_wait_of_a_century_after_a_million_attempts_can_be_stored_and_read_back(sqlite_store):
    century = 100 * 366 * 86_400
    assert waits(sqlite_store, 1_000_000, Backoff(base=century, cap=century)) == [century]
    record = sqlite_store.reopen().read("1000000-0")
    assert record.attempts == 1_000_000
    assert record.settled_at - record.admitted_at == timedelta(0)


def test_the_numbers_of_attempts_may_come_to_their_end_and_the_job_gets_its_outcome(sqlite_store):
    queue = sqlite_store.connect()
    queue.enqueue(job_id="a", max_attempts=2**31 - 1)
    sqlite_store.execute("UPDATE bandog_ready SET attempts = ?", (2**31 - 2,))
    assert queue.fail(claim_one(queue, "a"), "the last one").kind == "failed"
