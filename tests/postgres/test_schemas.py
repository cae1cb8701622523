"""C51: any name of a schema, any search path, and nothing outside the schema."""

from contextlib import closing
from urllib.parse import quote

import psycopg
import pytest
from steps import Background

import bandog
from bandog import Completed, Job, SchemaMismatch, StaleClaim
from bandog.sql import in_schema, migrations

SCHEMAS = ["jobs", "MyApp", 'we"ird', "x" * 63, "with space and 'quote'", "select", "naïve.dot"]

# Whatever stands in front of pg_catalog in the search path may be called instead of what was meant.
HOSTILE = """
CREATE SCHEMA hostile;
CREATE TABLE hostile.job (trap integer);
CREATE TABLE hostile.ready (trap integer);
CREATE TABLE hostile.lease (trap integer);
CREATE TABLE hostile.outcome (trap integer);
CREATE TABLE hostile.migration (trap integer);
CREATE FUNCTION hostile.trap() RETURNS integer LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''trap''; END';
CREATE FUNCTION hostile.clock() RETURNS timestamptz LANGUAGE sql AS 'SELECT timestamptz ''epoch'' FROM hostile.trap()';
CREATE FUNCTION hostile.clock_timestamp() RETURNS timestamptz
    LANGUAGE sql AS 'SELECT timestamptz ''epoch'' FROM hostile.trap()';
CREATE FUNCTION hostile.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT timestamptz ''epoch'' FROM hostile.trap()';
CREATE FUNCTION hostile.nextval(regclass) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint FROM hostile.trap()';
CREATE FUNCTION hostile.wrong(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false FROM hostile.trap()';
CREATE FUNCTION hostile.wrong(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false FROM hostile.trap()';
CREATE FUNCTION hostile.wrong(integer, integer) RETURNS boolean LANGUAGE sql AS 'SELECT false FROM hostile.trap()';
CREATE FUNCTION hostile.wrong(timestamptz, timestamptz) RETURNS boolean
    LANGUAGE sql AS 'SELECT false FROM hostile.trap()';
CREATE OPERATOR hostile.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hostile.wrong);
CREATE OPERATOR hostile.= (LEFTARG = text, RIGHTARG = text, FUNCTION = hostile.wrong);
CREATE OPERATOR hostile.= (LEFTARG = integer, RIGHTARG = integer, FUNCTION = hostile.wrong);
CREATE OPERATOR hostile.> (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = hostile.wrong);
CREATE OPERATOR hostile.<= (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = hostile.wrong);
CREATE DOMAIN hostile.text AS integer;
CREATE DOMAIN hostile.json AS integer;
CREATE DOMAIN hostile.timestamptz AS integer;
"""

# Everything that is not the server's own, or ours.
OBJECTS = """
SELECT 'relation', relname::text FROM pg_class
WHERE relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'pg_toast'::regnamespace)
UNION ALL
SELECT 'function', proname::text FROM pg_proc
WHERE pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
UNION ALL
SELECT 'type', typname::text FROM pg_type
WHERE typnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'pg_toast'::regnamespace)
UNION ALL
SELECT 'schema', nspname::text FROM pg_namespace WHERE nspname !~ '^pg_'
ORDER BY 1, 2
"""


def with_search_path(url, path):
    option = quote(f"-c search_path={path}", safe="")
    return f"{url}{'&' if '?' in url else '?'}options={option}"


def every_operation(queue):
    """A life of a hundred jobs, and of some that take other ways."""
    ids = [f"{number:03}" for number in range(100)]
    assert {answer.kind for answer in queue.ingest_many(Job(job_id=job_id) for job_id in ids)} == {"admitted"}
    assert queue.ingest(Job(job_id="000")).kind == "duplicate"
    claims = queue.claim(limit=100)
    assert [claim.job_id for claim in claims] == ids
    assert queue.renew(claims[0]) is None
    settled = queue.settle_many([(claim, Completed({"n": 1})) for claim in claims])
    assert {settlement.kind for settlement in settled} == {"completed"}
    with pytest.raises(StaleClaim):
        queue.renew(claims[0])
    queue.set_lane_limit("other", "lane", 2)
    queue.ingest_many(
        [Job(job_id=f"lane-{n}", queue="other", lane="lane", priority=n, max_attempts=2) for n in range(2)]
    )
    with pytest.raises(bandog.LaneFull):
        queue.enqueue(job_id="full", queue="other", lane="lane")
    (claim,) = queue.claim(queues="other")
    assert queue.fail(claim, "why", retry_in=60).kind == "retried"
    assert queue.fail_lane("other", "lane", "enough").failed == 2
    queue.set_lane_limit("other", "lane", None)
    queue.enqueue(job_id="cancelled")
    assert queue.cancel("cancelled").kind == "cancelled"
    queue.enqueue(job_id="running")
    (claim,) = queue.claim()
    assert queue.cancel("running").kind == "requested"
    assert queue.release(claim).kind == "cancelled"
    assert len(queue.dead_letters().jobs) == 2
    queue.requeue("lane-0")
    assert queue.has_pending_work()
    assert queue.next_wake() is not None
    assert queue.stats().queues["other"].queued == 1
    assert len(queue.jobs(limit=200).jobs) == 104
    assert queue.recover() == ((), ())
    assert queue.purge(older_than=0, limit=1000) == 103
    assert queue.read("lane-0").state == "queued"


@pytest.mark.parametrize("schema", SCHEMAS)
def test_any_schema_works_and_leaves_nothing_outside_or_behind(empty, schema):
    before = empty.execute(OBJECTS)
    status = bandog.migrate(empty.url, schema=schema)
    assert (status.version, status.newest, status.is_current) == (0, 1, False)
    again = bandog.migrate(empty.url, schema=schema)
    assert (again.version, again.is_current) == (1, True)
    assert bandog.migration_status(empty.url, schema=schema) == again
    queue = empty.queue(schema=schema)
    every_operation(queue)
    queue.close()
    empty.execute(f"""DROP SCHEMA "{schema.replace('"', '""')}" CASCADE""")
    assert empty.execute(OBJECTS) == before


@pytest.mark.parametrize("path", ["", "hostile", "hostile,pg_catalog", "public"])
def test_no_search_path_puts_other_things_in_the_place_of_ours(empty, path):
    empty.execute(HOSTILE)
    url = with_search_path(empty.url, path)
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        if path.startswith("hostile,"):
            with pytest.raises(psycopg.errors.RaiseException, match="trap"):
                connection.execute("SELECT 1 WHERE 'a'::pg_catalog.text = 'a'::pg_catalog.text")
    bandog.migrate(url, schema="jobs")
    assert bandog.migration_status(url, schema="jobs").is_current
    every_operation(empty.queue(url=url, schema="jobs"))
    (objects,) = empty.execute("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace")
    assert objects == (0,)


def test_two_schemas_of_one_database_know_nothing_of_each_other(empty):
    for schema in ("one", "two"):
        empty.migrate(schema)
    one, two = empty.queue(schema="one"), empty.queue(schema="two")
    one.enqueue(1, job_id="a")
    assert two.claim() == []
    assert two.enqueue(2, job_id="a").kind == "admitted"
    assert [claim.payload for claim in one.claim(limit=9)] == [1]


def test_the_statements_for_other_tools_make_the_same_schema(empty):
    empty.execute('CREATE SCHEMA "by hand"')
    for text in migrations("postgres", schema="by hand"):
        empty.execute(text)
    empty.migrate("by us")
    columns = (
        "SELECT table_name, column_name, data_type, is_nullable, column_default, ordinal_position"
        " FROM information_schema.columns WHERE table_schema = %s ORDER BY table_name, ordinal_position"
    )
    assert empty.execute(columns, ("by hand",)) == empty.execute(columns, ("by us",)) != []
    assert bandog.migration_status(empty.url, schema="by hand").is_current
    every_operation(empty.queue(schema="by hand"))


def test_opening_never_migrates(empty):
    with pytest.raises(SchemaMismatch, match="bandog migrate"):
        empty.queue()
    assert empty.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'bandog'") == []
    assert bandog.migration_status(empty.url) == bandog.MigrationStatus(0, 1)
    empty.execute("CREATE SCHEMA bandog")
    with pytest.raises(SchemaMismatch, match="bandog migrate"):
        empty.queue()
    empty.migrate()
    empty.queue()


@pytest.mark.parametrize("version", [-1, 2])
def test_a_version_that_is_not_ours_is_refused_and_left_alone(database, version):
    if version < 0:
        database.execute("DELETE FROM bandog.migration")
    else:
        database.execute("INSERT INTO bandog.migration (version, applied_at) VALUES (%s, now())", (version,))
    with pytest.raises(SchemaMismatch) as caught:
        database.queue()
    assert "bandog migrate" in str(caught.value)
    if version > 0:
        with pytest.raises(SchemaMismatch, match="newer"):
            bandog.migrate(database.url)


def test_migrations_at_once_come_one_after_the_other(empty):
    migrating = [Background(lambda: bandog.migrate(empty.url, schema="race")) for _ in range(6)]
    versions = sorted(thread.join().version for thread in migrating)
    assert versions == [0, 1, 1, 1, 1, 1]


def test_a_migration_that_fails_leaves_nothing(empty):
    empty.execute("CREATE SCHEMA bandog; CREATE TABLE bandog.outcome (mine integer)")
    with pytest.raises(bandog.StoreFailed, match="outcome"):
        empty.migrate()
    assert empty.execute("SELECT relname FROM pg_class WHERE relnamespace = 'bandog'::regnamespace") == [("outcome",)]
    assert in_schema("SELECT bandog.clock()", "x.y") == 'SELECT "x.y".clock()'
