"""Nothing on the caller's connection is begun, ended or set, and no setting of it gets in the way."""

import json

import django.conf
import psycopg
import pytest
from django.db import connections
from django.db.transaction import TransactionManagementError, atomic, set_rollback
from psycopg.rows import class_row, dict_row, namedtuple_row
from psycopg.types.json import set_json_loads
from psycopg.types.string import TextLoader
from server_callers import KINDS

import bandog
from bandog import Completed, Job, Snooze

STATE = "SELECT pg_current_xact_id()::text, string_agg(name || setting, ',' ORDER BY name) FROM pg_settings"


def use_everything(queue, connection):
    queue.set_lane_limit("q", "l", 5)
    for number in range(4):
        queue.enqueue(job_id=f"claimed-{number}", max_attempts=2)
    *claims, snoozed = queue.claim(limit=4)
    queue.ingest_many([Job(job_id=f"job-{number}") for number in range(3)], connection=connection)
    assert queue.enqueue(job_id="job-0", connection=connection).kind == "duplicate"
    assert queue.enqueue(job_id="in-lane", queue="q", lane="l", connection=connection).kind == "admitted"
    queue.settle_many([(claim, Completed()) for claim in claims], connection=connection)
    queue.settle(snoozed, Snooze(9), connection=connection)
    assert queue.settle(snoozed, Snooze(9), connection=connection).kind == "snoozed"
    with pytest.raises(bandog.StaleClaim):
        queue.acknowledge((snoozed.job_id, "0" * 32), connection=connection)


@pytest.mark.parametrize("kind", ["psycopg", "psycopg-autocommit", "psycopg-sqlalchemy-session", "psycopg-django"])
def test_the_transaction_is_the_same_one_afterwards_and_so_are_the_settings(postgres_server, kind):
    caller = KINDS[kind](postgres_server)
    try:

        def state():
            if kind == "psycopg-sqlalchemy-session":
                return caller.connection.connection().exec_driver_sql(STATE).fetchall()
            if kind == "psycopg-django":
                with caller.connection.cursor() as cursor:
                    cursor.execute(STATE)
                    return cursor.fetchall()
            return caller.connection.execute(STATE).fetchall()

        caller.write("first")
        caller.savepoint()
        before = state()
        use_everything(caller.queue, caller.connection)
        assert state() == before
        caller.roll_back_to_savepoint()
        caller.commit()
        assert caller.words() == ["first"]
        assert len(caller.jobs()) == 4
    finally:
        caller.stop()


@pytest.mark.parametrize("kind", ["asyncpg", "async-psycopg"])
def test_no_statement_controls_the_transaction(postgres_server, kind, monkeypatch):
    caller = KINDS[kind](postgres_server)
    seen = []
    try:
        if kind == "asyncpg":
            caller.connection.add_query_logger(lambda record: seen.append(record.query))
        else:
            execute = psycopg.AsyncCursor.execute

            def logged(self, query, *rest, **options):
                seen.append(query)
                return execute(self, query, *rest, **options)

            monkeypatch.setattr(psycopg.AsyncCursor, "execute", logged)
        use_everything(caller.queue, caller.connection)
        assert len(seen) > 10
        first = {text.split()[0] for text in seen}
        assert first <= {"SELECT", "WITH", "INSERT", "DELETE"}
        caller.commit()
    finally:
        monkeypatch.undo()
        caller.stop()


class Odd(psycopg.Cursor):
    """A cursor of the caller's own, for statements of the caller's own."""

    def execute(self, *_arguments, **_options):
        raise AssertionError


@pytest.mark.parametrize(
    "prepare",
    [
        lambda connection: setattr(connection, "row_factory", dict_row),
        lambda connection: setattr(connection, "row_factory", class_row(dict)),
        lambda connection: setattr(connection, "row_factory", namedtuple_row),
        lambda connection: setattr(connection, "cursor_factory", Odd),
        lambda connection: setattr(connection, "prepare_threshold", 0),
        lambda connection: set_json_loads(lambda _: 1 / 0, connection),
        lambda connection: connection.adapters.register_loader("timestamptz", TextLoader),
        lambda connection: psycopg.Cursor(connection).execute("SET TimeZone = 'Asia/Kathmandu'"),
        lambda connection: psycopg.Cursor(connection).execute("SET standard_conforming_strings = off"),
        lambda connection: psycopg.Cursor(connection).execute("SET extra_float_digits = -15"),
        lambda connection: psycopg.Cursor(connection).execute("SET plan_cache_mode = force_generic_plan"),
    ],
    ids=[
        *("dict_row", "class_row", "namedtuple_row", "cursor", "prepared", "json", "timestamptz", "zone", "strings"),
        *("floats", "generic"),
    ],
)
def test_rows_and_values_may_come_in_any_form(postgres_server, prepare):
    caller = KINDS["psycopg"](postgres_server)
    try:
        prepare(caller.connection)
        check_answers(caller.queue, caller.connection)
        caller.connection.rollback()
    finally:
        caller.stop()


def check_answers(queue, connection):
    given = {"ü": [1, 1.0, True, None, "a\"\\'{b},%s $1 \u2028"]}
    fields = {"queue": "q", "lane": "l %s", "max_attempts": 3, "backoff": bandog.Backoff(0.1, 7, 0.3), "delay": 60}
    native = queue.enqueue(given, job_id="native", **fields).job
    for kind in ("admitted", "duplicate"):
        job = queue.enqueue(given, job_id="jöb 'x' \"y\" \\", connection=connection, **fields).job
        assert (job.payload, job.payload_json, job.lane) == (given, native.payload_json, "l %s"), kind
        assert (job.admitted_at, job.available_at) == (native.admitted_at, native.available_at), kind
    queue.enqueue(job_id="b", max_attempts=3)
    (claim,) = queue.claim(worker="wörker")
    settled = queue.fail(claim, "w\"h'y\\ {}", retry_in=0.25, connection=connection)
    assert settled == queue.acknowledge(claim, connection=connection)
    assert (settled.available_at - native.admitted_at).total_seconds() == 0.25


def test_django_without_time_zones_has_the_same(postgres_server):
    caller = KINDS["psycopg-django"](postgres_server)
    try:
        caller.roll_back()
        caller.connection.close()
        caller.connection.settings_dict["TIME_ZONE"] = None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(django.conf.settings, "USE_TZ", False)
            for name in ("timezone", "timezone_name"):
                caller.connection.__dict__.pop(name, None)
            with atomic("server"):
                check_answers(caller.queue, caller.connection)
            caller.connection.close()
        for name in ("timezone", "timezone_name"):
            caller.connection.__dict__.pop(name, None)
    finally:
        caller.stop()


@pytest.mark.parametrize("codec", ["json", "timestamptz"])
def test_codecs_of_asyncpg_have_the_same(postgres_server, codec):
    caller = KINDS["asyncpg"](postgres_server)
    try:
        decoder = json.loads if codec == "json" else str
        caller.call(
            caller.connection.set_type_codec, codec, schema="pg_catalog", encoder=str, decoder=decoder, format="text"
        )
        check_answers(caller.queue, caller.connection)
        caller.roll_back()
    finally:
        caller.stop()


def test_statements_go_through_django(postgres_server):
    """So that its log, its wrappers and its checks see them."""
    caller = KINDS["psycopg-django"](postgres_server)
    try:
        seen = []

        def wrapper(execute, sql, params, many, context):
            seen.append(sql)
            return execute(sql, params, many, context)

        with caller.connection.execute_wrapper(wrapper):
            caller.queue.enqueue(job_id="a", connection=caller.connection)
        assert any("INTO bandog.job" in text for text in seen)
        set_rollback(True, "server")
        with pytest.raises(TransactionManagementError):
            caller.queue.enqueue(job_id="b", connection=caller.connection)
    finally:
        caller.stop()


def test_django_without_autocommit_is_in_a_transaction(postgres_server):
    caller = KINDS["psycopg-django"](postgres_server)
    caller.roll_back()
    connection = connections["server"]
    try:
        connection.set_autocommit(False)
        caller.queue.enqueue(job_id="a", connection=connection)
        connection.rollback()
        assert caller.jobs() == []
        caller.queue.enqueue(job_id="a", connection=connection)
        connection.commit()
        connection.set_autocommit(True)
        assert caller.jobs() == ["a"]
    finally:
        caller.stop()


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_pipeline_of_psycopg_may_be_open(postgres_server, autocommit):
    caller = KINDS["psycopg-autocommit" if autocommit else "psycopg"](postgres_server)
    try:
        with caller.connection.pipeline():
            caller.write("first")
            use_everything(caller.queue, caller.connection)
            caller.write("second")
        caller.commit()
        assert caller.words() == ["first", "second"]
        assert "in-lane" in caller.jobs()
    finally:
        caller.stop()


PAIRS = [
    *[(of, of) for of in ("text", "bigint", "integer", "timestamptz", "name", "oid", '"char"', "numeric", "float8")],
    *[("timestamptz", "interval"), ("float8", "interval"), ("numeric", "integer"), ("name", "text"), ("text", "name")],
]
NEVER = "LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'hostile'; END$$"


def hostile():
    """Operators, functions, tables and types in the place of those that the statements mean."""
    yield "DROP SCHEMA IF EXISTS hostile CASCADE"
    yield "CREATE SCHEMA hostile"
    for left, right in PAIRS:
        yield f"CREATE FUNCTION hostile.never({left}, {right}) RETURNS boolean {NEVER}"
        for operator in ("=", "<>", "<", ">", "+", "*"):
            yield f"CREATE OPERATOR hostile.{operator} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = hostile.never)"
    for function in ("unnest(anyarray)", "count(bigint)", "concat_ws(text, text)", "extract(text, timestamptz)"):
        yield f"CREATE FUNCTION hostile.{function} RETURNS text {NEVER}"
    for table in ("job", "ready", "lease", "outcome", "lane_limit", "pg_class", "pg_namespace", "pg_database"):
        yield f"CREATE TABLE hostile.{table} ()"
    for of in ("text", "json", "int4", "int8", "float8", "timestamptz", "bool", "interval"):
        yield f"CREATE DOMAIN hostile.{of} AS pg_catalog.xid"


@pytest.mark.parametrize("kind", ["psycopg", "asyncpg", "psycopg-django"])
def test_a_hostile_search_path_changes_nothing(postgres_server, kind):
    """In the order that puts whatever others have made there before what PostgreSQL brings."""
    caller = KINDS[kind](postgres_server)
    try:
        for statement in hostile():
            postgres_server.execute(statement)
        if kind == "asyncpg":  # it asks what these types are, in words that do not bear such a path
            for of in ("text", "int4", "int8", "float8", "timestamptz"):
                caller.call(caller.connection.fetch, f"SELECT $1::{of}[]", [])
        caller.execute("SET LOCAL search_path = hostile, pg_catalog, public")
        caller.savepoint()
        with pytest.raises(Exception, match="hostile"):
            caller.execute("SELECT 'a'::pg_catalog.text = 'b'::pg_catalog.text")
        caller.roll_back_to_savepoint()
        use_everything(caller.queue, caller.connection)
        check_answers(caller.queue, caller.connection)
        caller.roll_back()
    finally:
        caller.stop()
        postgres_server.execute("DROP SCHEMA IF EXISTS hostile CASCADE")


def test_many_jobs_take_several_statements(postgres_server):
    caller = KINDS["psycopg"](postgres_server)
    try:
        jobs = [Job(job_id=f"{number:05}", payload=number) for number in range(10_050)]
        kinds = {admission.kind for admission in caller.queue.ingest_many(jobs, connection=caller.connection)}
        assert kinds == {"admitted"}
        again = caller.queue.ingest_many(jobs, connection=caller.connection)
        assert {admission.kind for admission in again} == {"duplicate"}
        assert [admission.job_id for admission in again] == [job.job_id for job in jobs]
        caller.commit()
        order = caller.select("SELECT job_id FROM bandog.job ORDER BY number")
        assert [job_id for (job_id,) in order] == [job.job_id for job in jobs]
    finally:
        caller.stop()
