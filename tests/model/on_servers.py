"""The machine on a PostgreSQL server: time is the schema's, and no liveness probe stands for a lease."""

import gc

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

    def are_gone(self) -> None:
        # A dropped queue's sessions end with it, which may be when garbage is next collected; a server has a hundred.
        gc.collect()


class OnServersAsync(OnServers):
    face = AsyncPostgresStore
