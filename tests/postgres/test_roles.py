"""C51: the owner installs; roles with nothing but the documented grants do their part, and what is missing is named."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import psycopg
import pytest
from fix_postgres import TABLES as JOBS
from fix_postgres import as_role
from processes import eventually
from psycopg import sql
from test_schemas import every_operation

import bandog
from bandog import CannotOpen, Completed, Job, StoreFailed
from bandog.sql import KINDS, grants, in_schema

# Everything of one schema that somebody may be given a right to, and who was given which. The owner's own are left out.
OBJECTS = """
SELECT 'TABLE', relname::text FROM pg_class WHERE relnamespace = %(schema)s::regnamespace AND relkind = 'r'
UNION ALL SELECT 'SEQUENCE', relname FROM pg_class WHERE relnamespace = %(schema)s::regnamespace AND relkind = 'S'
UNION ALL SELECT 'FUNCTION', proname FROM pg_proc WHERE pronamespace = %(schema)s::regnamespace
UNION ALL SELECT 'SCHEMA', nspname FROM pg_namespace WHERE oid = %(schema)s::regnamespace
"""
GRANTED = """
SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, relname::text, NULL, privilege_type
FROM pg_class, aclexplode(relacl) WHERE relnamespace = %(schema)s::regnamespace AND grantee = %(role)s::regrole
UNION ALL
SELECT 'TABLE', relname, attname::text, privilege_type
FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid, aclexplode(attacl)
WHERE relnamespace = %(schema)s::regnamespace AND grantee = %(role)s::regrole
UNION ALL
SELECT 'FUNCTION', proname, NULL, privilege_type
FROM pg_proc, aclexplode(proacl) WHERE pronamespace = %(schema)s::regnamespace AND grantee = %(role)s::regrole
UNION ALL
SELECT 'SCHEMA', nspname, NULL, privilege_type
FROM pg_namespace, aclexplode(nspacl) WHERE pg_namespace.oid = %(schema)s::regnamespace AND grantee = %(role)s::regrole
"""


@dataclass(frozen=True)
class Right:
    """One privilege on one thing."""

    of: str
    name: str
    column: str | None
    privilege: str

    def change(self, schema: str, role: str, *, give: bool) -> sql.Composed:
        privilege = sql.SQL(self.privilege)  # type: ignore[arg-type]  # the server's word
        if self.column is not None:
            privilege += sql.SQL(" ({})").format(sql.Identifier(self.column))
        name = sql.Identifier(schema) if self.of == "SCHEMA" else sql.Identifier(schema, self.name)
        words = ("GRANT {} ON {} {} TO {}", "REVOKE {} ON {} {} FROM {}")
        text = sql.SQL(words[0 if give else 1])
        return text.format(privilege, sql.SQL(self.of), name, sql.Identifier(role))  # type: ignore[arg-type]  # as above

    def __str__(self) -> str:
        """As messages name it."""
        field = f" ({self.column})" if self.column else ""
        name = {"SCHEMA": "the schema", "FUNCTION": f"{self.name}()"}.get(self.of, self.name)
        return f"{self.privilege}{field} on {name}"


class House:
    """A database, a schema that a role without further rights has installed, and roles that were granted their part."""

    def __init__(self, database: Any, schema: str) -> None:
        self.database = database
        self.schema = schema
        self.roles: list[str] = []
        self.owner = self.role("owner")
        name = sql.Identifier(database.name)
        self.change(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(name, sql.Identifier(self.owner)))
        bandog.migrate(self.url(self.owner), schema=schema)
        # As where an administrator has taken from everybody what everybody has by default.
        everybody = "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {} FROM PUBLIC"
        self.change(sql.SQL(everybody).format(sql.Identifier(schema)))
        self.names = {kind: self.role(kind) for kind in KINDS}
        with self.connection(self.owner) as connection:
            for kind, role in self.names.items():
                for _twice in range(2):
                    for statement in grants(kind, role, schema=schema):
                        connection.execute(statement.encode())

    def role(self, kind: str) -> str:
        """Make one that may log in, and nothing else."""
        name = f'bandog {kind}\'s "{os.getpid()}"'
        self.change(sql.SQL("DROP ROLE IF EXISTS {0}; CREATE ROLE {0} LOGIN").format(sql.Identifier(name)))
        self.roles.append(name)
        return name

    def change(self, statement: sql.Composed) -> None:
        with closing(self.database.connection()) as connection:
            connection.execute(statement)

    def rows(self, statement: str, **parameters: Any) -> list[tuple[Any, ...]]:
        with closing(self.database.connection()) as connection:
            return connection.execute(statement.encode(), {"schema": f'"{self.schema}"', **parameters}).fetchall()

    def rights(self, role: str) -> list[Right]:
        return [
            Right(*row) for row in sorted(self.rows(GRANTED, role=f'"{role.replace(chr(34), chr(34) * 2)}"'), key=str)
        ]

    def url(self, role: str) -> str:
        return as_role(self.database.url, role)

    def connection(self, role: str) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url(role), autocommit=True)

    def queue(self, kind: str) -> bandog.Queue:
        return self.database.queue(url=self.url(self.names[kind]), schema=self.schema)

    def contents(self) -> dict[str, list[tuple[Any, ...]]]:
        """All that is stored."""
        return {
            table: self.rows(f'SELECT * FROM "{self.schema}".{table} ORDER BY 1')  # noqa: S608 - from here
            for table in JOBS
        }

    def close(self) -> None:
        self.database.close()
        for role in self.roles:
            name = sql.Identifier(role)
            self.change(sql.SQL("DROP OWNED BY {0} CASCADE; DROP ROLE {0}").format(name))


@pytest.fixture
def house(empty: Any, request: pytest.FixtureRequest) -> Iterator[House]:
    house = House(empty, getattr(request, "param", "bandog"))
    yield house
    house.close()


in_any_schema = pytest.mark.parametrize("house", ["bandog", "My jobs"], indirect=True)


def never_run(job: bandog.ClaimedJob, _cancel: bandog.CancellationToken) -> None:
    pytest.fail(f"{job.job_id} was run")


def look(queue: bandog.Queue, job_id: str) -> None:
    """Everything that changes nothing."""
    assert queue.read(job_id).job_id == job_id
    assert queue.get(job_id).job_id == job_id
    for state in (None, "queued", "running", "settled"):
        queue.jobs(state=state)
    queue.dead_letters()
    queue.stats()
    queue.has_pending_work()
    queue.next_wake()


def kinds(answers: Iterable[bandog.Admission]) -> list[str]:
    return [answer.kind for answer in answers]


def produce(queue: bandog.Queue) -> None:
    """Every way to ingest, and every answer."""
    ids = [f"job-{number}" for number in range(20)]
    assert kinds(queue.ingest_many(Job(job_id=job_id) for job_id in ids)) == ["admitted"] * 20
    again = queue.ingest_many([Job(job_id="job-0"), Job(payload=2, job_id="job-1"), Job(job_id="new")])
    assert kinds(again) == ["duplicate", "conflict", "admitted"]
    assert queue.enqueue(job_id="job-2").kind == "duplicate"
    with pytest.raises(bandog.JobConflict):
        queue.enqueue(2, job_id="job-2")
    assert queue.enqueue(1, job_id="bounded", queue="narrow", lane="lane").kind == "admitted"
    with pytest.raises(bandog.LaneFull):
        queue.enqueue(1, job_id="too many", queue="narrow", lane="lane")
    look(queue, "job-3")


@in_any_schema
def test_a_worker_role_does_all_that_is_done_with_jobs(house: House) -> None:
    queue = house.queue("worker")
    every_operation(queue)
    look(queue, "lane-0")
    with house.connection(house.names["worker"]) as own, own.transaction():
        queue.enqueue(1, job_id="through", connection=own)
        queue.ingest_many([Job(payload=1, job_id="through"), Job(payload=1, job_id="another")], connection=own)
    (claim, other) = queue.claim(limit=2, queues="default")
    with house.connection(house.names["worker"]) as own, own.transaction():
        queue.acknowledge(claim, connection=own)
        queue.fail(other, "why", connection=own)
    assert queue.read("another").outcome == bandog.Failed("why")
    queue.requeue("another")
    (lost,) = queue.claim(queues="default", lease=0.5)
    recovered = eventually(lambda: queue.recover()[0], "a lost claim is recovered")
    assert recovered == (lost.job_id,)
    bandog.Worker(queue, lambda job, _cancel: Completed(job.attempt)).run(burst=True)
    assert queue.read("another").outcome == Completed(3)
    assert not queue.has_pending_work()


@in_any_schema
def test_a_producer_role_ingests_and_looks(house: House) -> None:
    house.queue("worker").set_lane_limit("narrow", "lane", 1)
    queue = house.queue("producer")
    produce(queue)
    with house.connection(house.names["producer"]) as own, own.transaction():
        assert queue.enqueue(1, job_id="through", connection=own).kind == "admitted"
        new = [Job(payload=1, job_id="through"), Job(payload=2, job_id="job-0"), Job(queue="narrow", lane="lane")]
        assert kinds(queue.ingest_many(new, connection=own)) == ["duplicate", "conflict", "refused"]
        # The statement for other languages, as it is documented.
        (text,) = re.findall(r"```sql\n(.*?)```", (files("bandog.sql") / "README.md").read_text(), flags=re.DOTALL)
        assert own.execute(in_schema(text, house.schema).encode()).rowcount == 1
    assert len(house.queue("worker").claim(limit=100, queues=["default", "narrow"])) == 23, "all that was admitted"
    assert len(house.queue("worker").claim(queues="mail")) == 1


def refused_calls(claim: bandog.ClaimedJob) -> dict[str, Callable[[bandog.Queue], object]]:
    """What a producer may not do, as it would be tried."""
    return {
        "claim": lambda queue: queue.claim(),
        "renew": lambda queue: queue.renew(claim),
        "acknowledge": lambda queue: queue.acknowledge(claim),
        "acknowledge by id": lambda queue: queue.acknowledge((claim.job_id, claim.lease_token)),
        "fail": lambda queue: queue.fail(claim, "why"),
        "release": lambda queue: queue.release(claim),
        "recover": lambda queue: queue.recover(),
        "cancel": lambda queue: queue.cancel("waiting"),
        "cancel a running one": lambda queue: queue.cancel(claim.job_id),
        "requeue": lambda queue: queue.requeue("dead"),
        "fail_lane": lambda queue: queue.fail_lane("default", "default", "why"),
        "set_lane_limit": lambda queue: queue.set_lane_limit("narrow", "lane", 5),
        "lift a lane's limit": lambda queue: queue.set_lane_limit("narrow", "lane", None),
        "purge": lambda queue: queue.purge(older_than=0),
    }


@pytest.mark.parametrize("kind", ["producer", "observer"])
def test_what_a_role_may_not_do_is_refused_by_name_and_changes_nothing(house: House, kind: str) -> None:
    worker = house.queue("worker")
    worker.set_lane_limit("narrow", "lane", 1)
    worker.enqueue(1, job_id="dead")
    worker.fail(worker.claim()[0], "why")
    worker.enqueue(1, job_id="running")
    (claim,) = worker.claim(lease=1000)
    worker.enqueue(1, job_id="waiting")
    before = house.contents()
    queue = house.queue(kind)
    calls = refused_calls(claim)
    if kind == "observer":
        calls["ingest"] = lambda queue: queue.enqueue(1)
        calls["ingest_many"] = lambda queue: queue.ingest_many([Job(), Job()])
    for name, call in calls.items():
        with pytest.raises(StoreFailed) as caught:
            call(queue)
        told = str(caught.value)
        assert "permission denied" in told, name
        assert "nothing was changed" in told, name
        assert f'To be a worker, the role "{house.names[kind]}" lacks' in told.replace('\\"', '"'), name
        for privilege in ("DELETE on ready", "INSERT on lease", "UPDATE (lease_until) on lease", "DELETE on outcome"):
            assert privilege in told, (name, privilege)
        assert ("INSERT on job" in told) == (kind == "observer"), name
        assert "bandog grants " in told, name
        assert " --as worker" in told, name
    assert house.contents() == before
    look(queue, "waiting")


def test_a_producer_cannot_settle_through_a_connection_either(house: House) -> None:
    worker, queue = house.queue("worker"), house.queue("producer")
    worker.enqueue(1, job_id="running")
    (claim,) = worker.claim(lease=1000)
    before = house.contents()
    with house.connection(house.names["producer"]) as own:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match=r"table (lease|outcome)"), own.transaction():
            queue.acknowledge(claim, connection=own)
        # Locking a bound takes one column, and that one says nothing.
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="lane_limit"):
            own.execute("UPDATE bandog.lane_limit SET most = 1000")
    assert house.contents() == before


@in_any_schema
def test_a_role_without_grants_is_told_so_at_opening(house: House) -> None:
    stranger = house.role("stranger")
    for attempt in (
        lambda: bandog.connect(house.url(stranger), schema=house.schema),
        lambda: bandog.migration_status(house.url(stranger), schema=house.schema),
    ):
        with pytest.raises(CannotOpen) as caught:
            attempt()
        told = str(caught.value)
        assert f'the role "{stranger}" may not read' in told.replace('\\"', '"')
        assert f'the schema "{house.schema}"' in told
        for privilege in ("USAGE on the schema", "SELECT on migration", "SELECT on job", "EXECUTE on clock()"):
            assert privilege in told
        place = "" if house.schema == "bandog" else f" --schema '{house.schema}'"
        assert f" --as worker{place}`" in told
        assert "\n" not in told


@pytest.mark.parametrize("kind", ["producer", "observer"])
def test_a_runtime_of_a_role_that_may_not_claim_fails_once_at_its_start(
    house: House, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = house.queue(kind)
    for start in (
        lambda: bandog.Worker(queue, never_run).run(),
        lambda: bandog.Worker(queue, never_run).start(),
        lambda: bandog.Watchdog(queue, never_run).tick(),
    ):
        with pytest.raises(
            StoreFailed, match=r"may not run the jobs of schema \"bandog\".*DELETE on ready.*--as worker"
        ):
            start()
    assert [record for record in caplog.records if record.name.startswith("bandog")] == []


@pytest.mark.parametrize("kind", KINDS)
def test_each_privilege_that_is_granted_is_looked_for(house: House, kind: str) -> None:
    role = house.names[kind]
    rights = house.rights(role)
    looks = house.rights(house.names["observer"])
    assert len(rights) == {"observer": 7, "producer": 13, "worker": 27}[kind]
    for right in rights:
        house.change(right.change(house.schema, role, give=False))
        try:
            if right in looks:
                with pytest.raises(CannotOpen, match=re.escape(str(right))):
                    house.queue(kind)
            else:
                with house.queue(kind) as queue, pytest.raises(StoreFailed, match=re.escape(str(right))):
                    bandog.Worker(queue, never_run).start()
        finally:
            house.change(right.change(house.schema, role, give=True))
    assert house.rights(role) == rights
    house.queue(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_no_more_is_granted_than_is_needed(house: House, kind: str) -> None:
    """Without any one of the privileges that a kind of role has beside the one before it, something fails."""
    role = house.names[kind]
    before = {"observer": [], "producer": house.rights(house.names["observer"])}.get(
        kind, house.rights(house.names["producer"])
    )
    # The table of migrations is read at opening alone.
    rights = [right for right in house.rights(role) if right not in before and right.name != "migration"]
    assert rights
    owner = house.database.queue(url=house.url(house.owner), schema=house.schema)
    queue = house.queue(kind)
    steps: dict[str, Callable[[], None]] = {
        "observer": lambda: look(queue, "job"),
        "producer": lambda: produce(queue),
        "worker": lambda: every_operation(queue),
    }
    for right in rights:
        house.database.execute(f"TRUNCATE {', '.join(f'bandog.{table}' for table in JOBS)}")
        if kind != "worker":
            owner.set_lane_limit("narrow", "lane", 1)
        if kind == "observer":
            owner.enqueue(1, job_id="job")
        house.change(right.change(house.schema, role, give=False))
        try:
            with pytest.raises(StoreFailed, match="permission denied"):
                steps[kind]()
        except pytest.fail.Exception:
            pytest.fail(f"{right}: nothing needs it")
        finally:
            house.change(right.change(house.schema, role, give=True))


def test_every_thing_of_the_schema_is_granted_to_a_worker(house: House) -> None:
    """A migration that makes something says who may do what with it."""
    granted = {(right.of, right.name) for right in house.rights(house.names["worker"])}
    assert granted == set(house.rows(OBJECTS))


def test_who_owns_nothing_cannot_migrate_or_uninstall(house: House) -> None:
    url = house.url(house.names["worker"])
    assert bandog.migrate(url).is_current, "there is nothing to do"
    before = house.contents()
    with pytest.raises(StoreFailed, match="owner"):
        bandog.migrating.uninstall(url)
    with pytest.raises(StoreFailed, match=r"permission denied.*owns the schema"):
        bandog.migrate(url, schema="another")
    assert house.contents() == before


@pytest.mark.parametrize("kind", ["owner", "Worker", ""])
def test_an_unknown_kind_of_role_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="kind"):
        grants(kind, "role")


@pytest.mark.parametrize("role", ["", "x" * 64, "a\nb", "a\0b"])
def test_a_name_that_no_role_has_is_refused(role: str) -> None:
    with pytest.raises(ValueError, match="role"):
        grants("worker", role)


def test_no_name_puts_another_statement_in_the_place_of_ours() -> None:
    schema, role = 'SCHEMA bandog."grantee"; --', 'bandog."grantee"; DROP TABLE bandog.job'
    quoted = role.replace('"', '""')
    for text in grants("worker", role, schema=schema):
        for statement in filter(None, (line for line in text.splitlines() if line.startswith("GRANT"))):
            assert statement.count('"SCHEMA bandog.""grantee""; --"') >= statement.endswith(";")
            assert statement.count(f'"{quoted}"') == statement.endswith(";")
