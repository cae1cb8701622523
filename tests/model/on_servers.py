"""The machine on a PostgreSQL server: time is the schema's, and no liveness probe stands for a lease."""

from datetime import timedelta
from typing import Any

from fix_postgres import Server
from fix_store import AsyncPostgresStore, PostgresStore
from life_cycle import SECOND, Stored
from machine import Machine
from producing import Producing

import bandog

LONGEST_REST = 10 * SECOND


class OnServers(Producing, Machine):
    refusal_of_a_probe = bandog.InvalidJob
    face: type[PostgresStore] = PostgresStore
    server: Server
    """Set by the test, which is given it."""

    def open_store(self) -> PostgresStore:
        return self.face(self.server)

    def lasting(self, lease: Any) -> Any:
        """No shorter than twenty seconds: a call about a lease gives up at half of it, by the clock on the wall."""
        return lease + (timedelta(seconds=20) if isinstance(lease, timedelta) else 20)

    def lost_to_a_claim(self) -> list[Stored]:
        """None while recovery rests, for twenty times as long as it took: how long that is depends on the machine."""
        lost = super().lost_to_a_claim()
        if not lost:
            return lost
        # Named by both: the jobs of one call share their token.
        running = "SELECT job_id, lease_token FROM bandog_lease JOIN bandog_job USING (number)"
        still_there = set(self.store.execute(running))
        if all((job.job_id, job.lease.token) in still_there for job in lost):
            assert lost[0].lease.until > self.rules.uptime - LONGEST_REST
            return []
        return lost


class OnServersAsync(OnServers):
    face = AsyncPostgresStore
