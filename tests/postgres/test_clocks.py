"""C10: every time is the server's. A host whose clock is wrong steals nothing and sees what is due."""

from datetime import UTC, datetime, timedelta

import pytest

import bandog
from bandog.testing import FakeClock


@pytest.fixture(params=[-600, 600], ids=["ten minutes behind", "ten minutes ahead"])
def wrong(request, database):
    """A queue of a host whose clock is wrong."""
    return database.queue(clock=FakeClock(datetime.now(UTC) + timedelta(seconds=request.param)))


def test_a_claim_is_not_stolen(database, wrong):
    right = database.queue()
    right.enqueue(job_id="a")
    (claim,) = right.claim(lease=30)
    assert wrong.claim() == []
    assert wrong.recover() == ((), ())
    assert right.renew(claim, lease=30) is None
    assert wrong.read("a").lease_until - datetime.now(UTC) < timedelta(seconds=31)
    assert right.acknowledge(claim).kind == "completed"


def test_a_claim_of_a_wrong_host_holds_as_long_as_any_other(database, wrong):
    right = database.queue()
    right.enqueue(job_id="a", max_recoveries=5)
    (claim,) = wrong.claim(lease=1)
    assert right.recover() == ((), ())
    left = wrong.read("a").lease_until - datetime.now(UTC)
    assert timedelta(0) < left <= timedelta(seconds=1)
    while not right.recover()[0]:
        assert datetime.now(UTC) - wrong.read("a").claimed_at < timedelta(seconds=30)
    assert datetime.now(UTC) - claim.claimed_at >= timedelta(seconds=1)
    with pytest.raises(bandog.StaleClaim):
        wrong.acknowledge(claim)


def test_what_is_due_is_due_by_the_server(wrong):
    wrong.enqueue(job_id="now")
    wrong.enqueue(job_id="soon", delay=60)
    wrong.enqueue(job_id="past", available_at=datetime.now(UTC) - timedelta(seconds=5))
    wrong.enqueue(job_id="future", available_at=datetime.now(UTC) + timedelta(seconds=300))
    assert [claim.job_id for claim in wrong.claim(limit=9)] == ["past", "now"]
