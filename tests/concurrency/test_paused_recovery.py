"""Recovery that is held up on a server while others go on: it writes what is so then, not what it had read (C05).

On a file it cannot be held up between the two: it reads and writes under the one lock of all writers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import pytest
from processes import eventually
from steps import Background, everything

import bandog
from bandog import Completed

if TYPE_CHECKING:
    from fix_target import Target
    from processes import Look

pytestmark = pytest.mark.parametrize("target", ["postgres"], indirect=True)

# The time is a table's row, as each statement finds it when it asks. The gate is a lock that the test takes.
CLOCK = """
    CREATE TABLE bandog_time (now timestamp with time zone NOT NULL);
    INSERT INTO bandog_time VALUES ('2026-01-01 00:00 UTC');
    CREATE FUNCTION bandog_gate() RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        IF current_setting('application_name') = 'held up' THEN
            PERFORM pg_advisory_xact_lock_shared(1);
        END IF;
    END $$;
"""
TICKS = """
    CREATE OR REPLACE FUNCTION bandog_clock() RETURNS timestamp with time zone LANGUAGE plpgsql AS $$
    BEGIN
        RETURN (SELECT now FROM bandog_time);
    END $$;
"""
TICKS_BEHIND_THE_GATE = TICKS.replace("RETURN (", "PERFORM bandog_gate(); RETURN (")
WRITES_BEHIND_THE_GATE = """
    CREATE FUNCTION bandog_pass() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM bandog_gate();
        RETURN NULL;
    END $$;
    CREATE TRIGGER gate BEFORE DELETE ON bandog_lease FOR EACH STATEMENT EXECUTE FUNCTION bandog_pass();
"""


@pytest.fixture
def look(target: Target) -> Iterator[Look]:
    with target.looking() as look:
        look(CLOCK)
        yield look


@pytest.fixture
def queue(target: Target, look: Look) -> Iterator[bandog.Queue]:
    look(TICKS)
    with target.connect() as queue:
        yield queue


@pytest.fixture
def slow(target: Target) -> Iterator[bandog.Queue]:
    """A queue whose sessions go by the gate."""
    parts = urlsplit(target.url)
    options = "&".join(filter(None, [parts.query, "application_name=held%20up"]))
    with bandog.connect(urlunsplit(parts._replace(query=options)), busy_timeout=60) as queue:
        queue.enqueue(job_id="connected", queue="elsewhere")
        yield queue


def time_passes(look: Look, seconds: float) -> None:
    look("UPDATE bandog_time SET now = now + ? * interval '1 second'", seconds)


@contextmanager
def held_up(look: Look, slow: bandog.Queue) -> Iterator[Background]:
    """Recovery under way, in front of the gate; it passes at the end."""
    look("SELECT pg_advisory_lock(1)")
    recovering = Background(slow.recover)
    waiting = (
        "SELECT query FROM pg_stat_activity JOIN pg_locks USING (pid)"
        " WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()"
    )
    ((query,),) = eventually(lambda: look(waiting), "recovery is in front of the gate")
    assert "bandog" in query
    assert "lease" in query
    yield recovering
    look("SELECT pg_advisory_unlock(1)")


def test_what_ended_or_was_renewed_after_recovery_had_looked_is_left_alone(
    look: Look, queue: bandog.Queue, slow: bandog.Queue
) -> None:
    """Its statement sees the rows of its beginning; the time that it judges them by is a later one."""
    queue.ingest_many([bandog.Job(job_id=job_id) for job_id in ("finished", "reclaimed", "renewed", "lost")])
    claims = {claim.job_id: claim for claim in queue.claim(limit=4, queues="default", lease=10)}
    look(TICKS_BEHIND_THE_GATE)
    with held_up(look, slow) as recovering:
        queue.acknowledge(claims["finished"], "in time")
        queue.release(claims["reclaimed"])
        (again,) = queue.claim("another", queues="default", lease=60)
        queue.renew(claims["renewed"], lease=60)
        before = [everything(queue.read(job_id)) for job_id in ("finished", "reclaimed", "renewed")]
        time_passes(look, 20)
    assert recovering.join() == (("lost",), ())
    assert [everything(queue.read(job_id)) for job_id in ("finished", "reclaimed", "renewed")] == before
    assert [record["state"] for record in before] == ["settled", "running", "running"]
    assert (again.job_id, again.attempt) == ("reclaimed", 2)
    assert queue.acknowledge(again).kind == queue.acknowledge(claims["renewed"]).kind == "completed"
    assert queue.read("lost").recoveries == 1


def stale(queue: bandog.Queue, claim: bandog.ClaimedJob) -> bool:
    with pytest.raises(bandog.StaleClaim):
        queue.acknowledge(claim, "too late")
    return True


def test_nobody_comes_between_what_recovery_has_locked_and_what_it_writes(
    target: Target, look: Look, queue: bandog.Queue, slow: bandog.Queue
) -> None:
    queue.ingest_many([bandog.Job(job_id=job_id, max_recoveries=5) for job_id in ("late", "cancelled", "lost")])
    claims = {claim.job_id: claim for claim in queue.claim(limit=3, queues="default", lease=10)}
    look(WRITES_BEHIND_THE_GATE)
    time_passes(look, 20)
    with target.connect(busy_timeout=60) as patient, target.connect() as other:
        with held_up(look, slow) as recovering:
            # Another sweep passes over what this one has in hand, and does not wait for it.
            assert other.recover() == ((), ())
            assert other.claim("another", queues="default") == []
            settling = Background(lambda: stale(queue, claims["late"]))
            cancelling = Background(lambda: patient.cancel("cancelled", "no longer wanted").kind)
            assert {queue.read(job_id).state for job_id in claims} == {"running"}
        recovered, interrupted = recovering.join()
        assert (set(recovered), interrupted) == (set(claims), ())
        assert settling.join()
        assert cancelling.join() == "cancelled"
        assert {queue.read(job_id).recoveries for job_id in claims} == {1}
        again = {claim.job_id: claim for claim in other.claim("another", limit=9, queues="default", lease=60)}
        assert {job_id: claim.attempt for job_id, claim in again.items()} == {"late": 2, "lost": 2}
        assert all(stale(queue, claim) for claim in claims.values())
        assert other.acknowledge(again["late"], "in time").kind == "completed"
        assert queue.read("late").outcome == Completed("in time")
        assert queue.read("cancelled").outcome == bandog.Cancelled("no longer wanted")
    target.assert_sound()
