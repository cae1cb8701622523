"""Renew: only the holder of a claim that still holds."""

from datetime import timedelta

import pytest
from steps import LEASE, claim_one, everything

from bandog import InvalidJob, JobNotFound, StaleClaim


@pytest.mark.parametrize("as_pair", [False, True], ids=["claim", "pair"])
def test_a_renewed_claim_holds_longer(store, queue, as_pair):
    queue.enqueue(job_id="a")
    claim = claim_one(queue, "a")
    named = ("a", claim.lease_token) if as_pair else claim
    for _ in range(5):
        store.advance(LEASE - 20)
        assert queue.renew(named, lease=LEASE) is None
        assert store.is_about(queue.read("a").lease_until, store.now() + timedelta(seconds=LEASE))
        assert queue.claim() == []
    record = queue.read("a")
    assert (record.state, record.attempts, record.recoveries) == ("running", 1, 0)
    assert queue.acknowledge(claim).kind == "completed"


def test_a_renewal_counts_from_now_and_may_shorten(store, queue):
    queue.enqueue(job_id="a")
    claim = claim_one(queue, "a", lease=3600)
    queue.renew(claim, lease=LEASE)
    store.advance(LEASE + 1)
    with pytest.raises(StaleClaim):
        queue.renew(claim)


def test_the_default_renewal_is_two_minutes(store, queue):
    queue.enqueue(job_id="a")
    queue.renew(claim_one(queue))
    assert store.is_about(queue.read("a").lease_until, store.now() + timedelta(minutes=2))


def test_another_connection_may_renew_with_the_token(store, queue):
    queue.enqueue(job_id="a")
    claim = claim_one(queue)
    assert store.connect().renew(("a", claim.lease_token)) is None


def refused(queue, claim):
    """A renewal that is stale, and changes nothing."""
    before = everything(queue.read("a"))
    for lease in (LEASE, 0.5, 100_000):
        with pytest.raises(StaleClaim) as caught:
            queue.renew(claim, lease=lease)
        assert caught.value.job_id == "a"
        token = claim[1] if isinstance(claim, tuple) else claim.lease_token
        assert token not in str(caught.value)
    assert everything(queue.read("a")) == before


def test_an_expired_claim_is_stale_before_recovery_has_run(store, queue):
    queue.enqueue(job_id="a")
    claim = claim_one(queue)
    store.advance(LEASE + 1)
    assert queue.read("a").state == "running"
    refused(queue, claim)
    refused(queue, ("a", claim.lease_token))


def test_an_expired_claim_is_stale_after_recovery(store, queue):
    queue.enqueue(job_id="a")
    claim = claim_one(queue)
    store.advance(LEASE + 1)
    assert queue.recover() == (("a",), ())
    refused(queue, claim)


def test_a_replaced_claim_is_stale_and_its_successor_holds(store, queue):
    queue.enqueue(job_id="a")
    old = claim_one(queue)
    store.advance(LEASE + 1)
    new = claim_one(store.connect(), "a")
    refused(queue, old)
    assert queue.renew(new) is None


@pytest.mark.parametrize("end", ["acknowledge", "fail", "cancelled", "outcome_unknown", "release"])
def test_a_claim_that_was_settled_is_stale(queue, end):
    queue.enqueue(job_id="a")
    claim = claim_one(queue)
    if end == "fail":
        queue.fail(claim, "why")
    else:
        getattr(queue, end)(claim)
    refused(queue, claim)


def test_a_wrong_token_is_stale(queue):
    queue.enqueue(job_id="a")
    claim = claim_one(queue)
    for token in ("wrong", "", claim.lease_token + "0", claim.lease_token.upper() + "x", claim.lease_token[:-1]):
        with pytest.raises(StaleClaim):
            queue.renew(("a", token))
    assert queue.renew(claim) is None


def test_the_token_of_another_job_is_stale(queue):
    queue.enqueue(job_id="a")
    first = claim_one(queue, "a")
    queue.enqueue(job_id="b")
    second = claim_one(queue, "b")
    before = everything(queue.read("a")), everything(queue.read("b"))
    for pair in (("a", second.lease_token), ("b", first.lease_token)):
        with pytest.raises(StaleClaim):
            queue.renew(pair, lease=9999)
    assert (everything(queue.read("a")), everything(queue.read("b"))) == before


def test_a_queued_job_cannot_be_renewed(queue):
    queue.enqueue(job_id="a")
    with pytest.raises(StaleClaim):
        queue.renew(("a", "token"))


def test_an_unknown_job_is_not_found(queue):
    with pytest.raises(JobNotFound) as caught:
        queue.renew(("never", "token"))
    assert caught.value.job_id == "never"


@pytest.mark.parametrize(
    ("name", "claim", "lease"),
    [
        ("lease", None, 0.4),
        ("lease", None, True),
        ("lease", None, float("nan")),
        ("lease", None, "60"),
        ("lease", None, None),
        ("claim", "a", 60),
        ("claim", ("a",), 60),
        ("claim", ("a", "b", "c"), 60),
        ("claim", ["a", "b"], 60),
        ("claim", 5, 60),
        ("job_id", (1, "token"), 60),
        ("lease_token", ("a", None), 60),
    ],
    ids=repr,
)
def test_an_argument_that_is_not_allowed_is_named(queue, name, claim, lease):
    queue.enqueue(job_id="a")
    held = claim_one(queue)
    before = everything(queue.read("a"))
    with pytest.raises(InvalidJob) as caught:
        queue.renew(held if claim is None else claim, lease=lease)
    assert caught.value.field == name
    assert everything(queue.read("a")) == before
