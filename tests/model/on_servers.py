"""The machine on a PostgreSQL server: time is the schema's, and no liveness probe stands for a lease."""

from fix_postgres import Server
from fix_store import AsyncPostgresStore, PostgresStore
from machine import Machine

import bandog


class OnServers(Machine):
    refusal_of_a_probe = bandog.InvalidJob
    face: type[PostgresStore] = PostgresStore
    server: Server
    """Set by the test, which is given it."""

    def open_store(self) -> PostgresStore:
        return self.face(self.server)


class OnServersAsync(OnServers):
    face = AsyncPostgresStore
