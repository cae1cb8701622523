"""The clocks are read as the engine reads them, and a wall clock that was set is noticed here too."""

import sqlite3
import time
from contextlib import closing

import pytest

import bandog
from bandog.stores.clock import now

HOUR = 3_600_000_000


def test_a_lease_is_measured_on_the_clock_that_it_was_made_with(path):
    """A claim of the queue's own holds until its lease ends, and not a moment longer, by the clock read here."""
    with bandog.connect(path) as queue, closing(sqlite3.connect(path)) as connection:
        queue.enqueue(job_id="a")
        before = now(None, 0)
        (claim,) = queue.claim(lease=60)
        after = now(None, 0)
        ((until, claimed_at),) = connection.execute("SELECT lease_until, claimed_at FROM bandog_lease").fetchall()
        assert before.uptime <= until - 60_000_000 <= after.uptime
        assert before.wall <= claimed_at <= after.wall
        connection.execute("UPDATE bandog_lease SET lease_until = ?", (now(None, 0).uptime,))
        with pytest.raises(bandog.StaleClaim):
            queue.acknowledge(claim, connection=connection)
        connection.execute("UPDATE bandog_lease SET lease_until = ?", (now(None, 0).uptime + 60_000_000,))
        queue.acknowledge(claim, connection=connection)


@pytest.mark.parametrize("settles", [False, True], ids=["ingest", "settle"])
@pytest.mark.parametrize(("moved", "due"), [(HOUR, "now"), (-HOUR, "later"), (500_000, "later")])
def test_a_wall_clock_that_was_set_back_keeps_no_job_waiting(path, moved, due, settles):
    """The file says that the wall clock stood elsewhere when it was last written: what a set clock looks like."""
    with bandog.connect(path) as queue, closing(sqlite3.connect(path)) as connection:
        for job_id in ("held", "claimed", "ready"):
            queue.enqueue(job_id=job_id)
        (claim,) = [claim for claim in queue.claim(limit=2) if claim.job_id == "claimed"]
        queue.enqueue(job_id="later", delay=7200)
        with connection:
            connection.execute("UPDATE bandog_clock SET wall_minus_uptime = wall_minus_uptime + ?", (moved,))
            connection.execute("UPDATE bandog_ready SET available_at = available_at + ? WHERE held = 0", (HOUR,))
        with connection:
            if settles:
                queue.acknowledge(claim, connection=connection)
            else:
                queue.enqueue(job_id="new", delay=1, connection=connection)
        wait = queue.read("ready").available_at.timestamp() - time.time()
        assert (wait <= 0) == (due == "now")
        assert queue.read("later").available_at.timestamp() - time.time() > 7100, "what was asked to wait waits"
        wall, uptime = now(None, 0)
        ((noted,),) = connection.execute("SELECT wall_minus_uptime FROM bandog_clock").fetchall()
        # Noted anew where it had moved by more than a second.
        assert abs(noted - (wall - uptime)) < 100_000 + (500_000 if moved == 500_000 else 0)
