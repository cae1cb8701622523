"""C51: uninstalling removes what bandog made, all of it, and nothing else."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from fix_postgres import TABLES, as_role
from steps import Background
from test_schemas import SCHEMAS, every_operation

import bandog
from bandog import SchemaMismatch, StoreBusy, StoreFailed
from bandog.migrating import Uninstalled, uninstall
from bandog.sql import uninstall as uninstall_statements

if TYPE_CHECKING:
    from conftest import Database

# Every catalogue of a database whose rows are objects, or say something of them. Statistics are left out: the server
# gathers them when it likes.
CATALOGUES = (
    *("pg_attribute", "pg_attrdef", "pg_constraint", "pg_index", "pg_sequence", "pg_inherits", "pg_trigger"),
    *("pg_rewrite", "pg_policy", "pg_statistic_ext", "pg_proc", "pg_aggregate", "pg_type", "pg_enum", "pg_range"),
    *("pg_operator", "pg_opclass", "pg_opfamily", "pg_amop", "pg_amproc", "pg_am", "pg_cast", "pg_collation"),
    *("pg_conversion", "pg_language", "pg_extension", "pg_event_trigger", "pg_namespace", "pg_default_acl"),
    *("pg_init_privs", "pg_seclabel", "pg_description", "pg_depend", "pg_largeobject_metadata", "pg_foreign_table"),
    *("pg_foreign_server", "pg_foreign_data_wrapper", "pg_user_mapping", "pg_publication", "pg_publication_rel"),
    *("pg_ts_config", "pg_ts_dict", "pg_ts_parser", "pg_ts_template", "pg_transform"),
)
OURS = "dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
# All of it, as text; of what all databases share, what is about this one. A vacuum changes other columns of pg_class.
CATALOGUE = " UNION ALL ".join(
    [
        *(f"SELECT '{name}', row::text FROM {name} AS row" for name in CATALOGUES),  # noqa: S608 - from here
        "SELECT 'pg_class', (oid, relname, relnamespace, relowner, relkind, relacl, reloptions)::text FROM pg_class",
        f"SELECT 'pg_shdepend', row::text FROM pg_shdepend AS row WHERE {OURS}",  # noqa: S608 - as above
        "SELECT 'pg_shdescription', row::text FROM pg_shdescription AS row",
        "SELECT 'pg_db_role_setting', row::text FROM pg_db_role_setting AS row",
    ]
)

MADE = """
SELECT 'relation', relname::text, relnamespace FROM pg_class UNION ALL
SELECT 'function', proname, pronamespace FROM pg_proc UNION ALL
SELECT 'type', typname, typnamespace FROM pg_type UNION ALL
SELECT 'constraint', conname, connamespace FROM pg_constraint UNION ALL
SELECT 'operator', oprname, oprnamespace FROM pg_operator
"""


def catalogue(database: Database) -> dict[str, set[str]]:
    """Everything that there is in a database."""
    rows: dict[str, set[str]] = {}
    for name, text in database.execute(CATALOGUE):
        rows.setdefault(name, set()).add(text)
    return rows


def changed(before: dict[str, set[str]], after: dict[str, set[str]]) -> dict[str, set[str]]:
    nothing: set[str] = set()
    names = before.keys() | after.keys()
    differences = {name: before.get(name, nothing) ^ after.get(name, nothing) for name in names}
    return {name: rows for name, rows in differences.items() if rows}


@pytest.mark.parametrize("schema", ["bandog", *SCHEMAS])
def test_nothing_is_left_and_nothing_was_ever_outside_the_schema(empty: Database, schema: str) -> None:
    before, things = catalogue(empty), set(empty.execute(MADE))
    bandog.migrate(empty.url, schema=schema)
    with empty.queue(schema=schema) as queue:
        every_operation(queue)  # a hundred jobs, and some more
    assert changed(before, catalogue(empty)).keys() >= {"pg_class", "pg_proc", "pg_namespace", "pg_depend"}
    allowed = set(empty.execute("SELECT oid FROM pg_namespace WHERE nspname = %s OR nspname = 'pg_toast'", (schema,)))
    made = set(empty.execute(MADE)) - things
    assert {(place,) for _, _, place in made} == allowed
    assert empty.execute("SELECT count(*) FROM pg_largeobject_metadata") == [(0,)]
    assert uninstall(empty.url, schema=schema) == Uninstalled(1, schema_is_gone=True)
    assert changed(before, catalogue(empty)) == {}
    assert uninstall(empty.url, schema=schema) == Uninstalled(0, schema_is_gone=True), "there is nothing to do"
    assert changed(before, catalogue(empty)) == {}
    with pytest.raises(SchemaMismatch, match="bandog migrate"):
        empty.queue(schema=schema)


@pytest.mark.parametrize("schema", ["bandog", 'we"ird'])
def test_the_statements_for_other_tools_do_the_same(empty: Database, schema: str) -> None:
    before = catalogue(empty)
    bandog.migrate(empty.url, schema=schema)
    with closing(empty.connection()) as connection, connection.transaction():
        for statement in uninstall_statements(schema=schema):
            connection.execute(statement.encode())
    assert changed(before, catalogue(empty)) == {}


def test_what_others_made_in_the_schema_stays_and_so_does_the_schema(empty: Database) -> None:
    empty.execute("CREATE SCHEMA bandog; CREATE TABLE bandog.theirs (n integer); INSERT INTO bandog.theirs VALUES (1)")
    empty.execute("CREATE FUNCTION bandog.clock(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1'")
    before = catalogue(empty)
    empty.migrate()
    with empty.queue() as queue:
        every_operation(queue)
    assert uninstall(empty.url) == Uninstalled(1, schema_is_gone=False)
    assert changed(before, catalogue(empty)) == {}
    assert empty.execute("SELECT n, bandog.clock(0) FROM bandog.theirs") == [(1, 1)]
    empty.migrate()
    empty.queue().enqueue(1)


def test_nothing_is_removed_where_something_of_others_depends_on_it(database: Database) -> None:
    with database.queue() as queue:
        queue.enqueue(1, job_id="a")
    database.execute("CREATE VIEW public.waiting AS SELECT job_id FROM bandog.job JOIN bandog.ready USING (number)")
    before = catalogue(database)
    with pytest.raises(StoreFailed, match="depend"):
        uninstall(database.url)
    assert changed(before, catalogue(database)) == {}
    assert database.queue().read("a").state == "queued"
    assert database.execute("SELECT * FROM waiting") == [("a",)]


def test_a_schema_that_is_not_ours_is_left_alone(empty: Database) -> None:
    empty.execute("CREATE SCHEMA bandog; CREATE TABLE bandog.job (theirs integer)")
    before = catalogue(empty)
    assert uninstall(empty.url) == Uninstalled(0, schema_is_gone=False)
    assert changed(before, catalogue(empty)) == {}


def test_an_empty_schema_of_another_role_stays(database: Database) -> None:
    """A superuser may drop anything; who owns the tables alone does not own what they are in."""
    tenant = f"bandog tenant {os.getpid()}"
    database.execute(f'DROP ROLE IF EXISTS "{tenant}"; CREATE ROLE "{tenant}" LOGIN')
    try:
        database.execute(f'GRANT USAGE ON SCHEMA bandog TO "{tenant}"')
        for table in (*TABLES, "migration"):
            database.execute(f'ALTER TABLE bandog.{table} OWNER TO "{tenant}"')
        for function in ("clock", "next_number"):
            database.execute(f'ALTER FUNCTION bandog.{function}() OWNER TO "{tenant}"')
        assert uninstall(as_role(database.url, tenant)) == Uninstalled(1, schema_is_gone=False)
        assert database.execute("SELECT relname FROM pg_class WHERE relnamespace = 'bandog'::regnamespace") == []
    finally:
        database.execute(f'DROP OWNED BY "{tenant}" CASCADE; DROP ROLE "{tenant}"')


def test_tables_of_a_later_version_are_left_alone(database: Database) -> None:
    database.execute("INSERT INTO bandog.migration (version, applied_at) VALUES (2, now())")
    before = catalogue(database)
    with pytest.raises(SchemaMismatch, match="newer"):
        uninstall(database.url)
    assert changed(before, catalogue(database)) == {}


def test_tables_in_use_are_waited_for_and_otherwise_left(database: Database) -> None:
    with closing(psycopg.connect(database.url)) as reader:
        reader.execute("SELECT count(*) FROM bandog.outcome")
        with pytest.raises(StoreBusy):
            uninstall(database.url)
    assert bandog.migration_status(database.url).is_current
    assert uninstall(database.url).schema_is_gone


def test_uninstalling_at_once_happens_once(database: Database) -> None:
    removing = [Background(lambda: uninstall(database.url)) for _ in range(4)]
    answers: list[Any] = [thread.join() for thread in removing]
    assert sorted(answer.version for answer in answers) == [0, 0, 0, 1]


def test_a_file_is_not_uninstalled(tmp_path: Any) -> None:
    with pytest.raises(bandog.InvalidJob, match="url"):
        uninstall(tmp_path / "jobs.sqlite")
