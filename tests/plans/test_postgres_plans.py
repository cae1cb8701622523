"""The plans of the statements for PostgreSQL: what one reads follows from what it returns, not from what is stored.

Each runs on full tables, with fresh statistics, with those of the empty tables, and with none; planned for its values,
and planned once for all. Read are pages: a pass over a pile takes hundreds of them, however it is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fix_postgres import in_database

import bandog
from bandog.sql import statement

# What the engine says to its sessions, or at the beginning of its transactions.
ENGINE = Path(__file__).parents[2] / "rust" / "store" / "postgres" / "transaction.rs"
(PLANNING,) = re.findall(r' const PLANNING: &str =\s+"(.*)";$', ENGINE.read_text(encoding="utf-8"), re.MULTILINE)

PILE = 30_000
RUNNING = 200
LEASE_PAGES = 900  # of a lease table full of dead rows, for what reads all running claims
FAILED = 300
RARE = 60

SETTLED = range(1, PILE + 1)  # completed
WAITING = range(PILE + 1, 2 * PILE + 1)  # due, in a queue that nobody asks for, lane "full"
LATER = range(2 * PILE + 1, 3 * PILE + 1)  # of a higher priority, due tomorrow
DUE = range(3 * PILE + 1, 3 * PILE + 101)
RUN = range(3 * PILE + 1001, 3 * PILE + 1001 + RUNNING)
FAIL = range(3 * PILE + 2001, 3 * PILE + 2001 + FAILED)
LANE = range(3 * PILE + 3001, 3 * PILE + 3001 + RARE)  # in the queue of the waiting ones

JOBS = [*DUE[:20], *RUN[:20], *FAIL[:20], *SETTLED[5000:5020]]

TEXTS, INT4S, INT8S, FLOATS, TIMES = "text[]", "int4[]", "int8[]", "float8[]", "timestamptz[]"

NEW = [f"new-{number}" for number in range(20)]
NOTHING = [None] * 20

# Per statement: the types and values of its parameters, how many rows it returns, and the most pages that it may read.
HOT: dict[str, tuple[dict[str, Any] | list[tuple[str, Any]], int, int]] = {
    "ingest": (
        [
            (TEXTS, NEW),
            (TEXTS, ["work"] * 20),
            (TEXTS, ["lane"] * 20),
            (INT4S, [0] * 20),
            (TEXTS, ["1"] * 20),
            (INT8S, NOTHING),
            (INT8S, NOTHING),
            (INT8S, NOTHING),
            (INT8S, NOTHING),
            (FLOATS, NOTHING),
            (INT8S, NOTHING),
            (TIMES, NOTHING),
            (FLOATS, [0.0] * 20),
            ("bool", False),
        ],
        20,
        700,
    ),
    "ingest_existing": (
        [
            (TEXTS, [f"job-{number}" for number in JOBS]),
            (TEXTS, ["work"] * len(JOBS)),
            (TEXTS, ["lane"] * len(JOBS)),
            (INT4S, [0] * len(JOBS)),
            (TEXTS, ["{}"] * len(JOBS)),
            (INT8S, [None] * len(JOBS)),
            (INT8S, [None] * len(JOBS)),
        ],
        len(JOBS),
        500,
    ),
    "lane_limit": ([(TEXTS, ["work"]), (TEXTS, ["lane"])], 0, 10),
    "lane_size": ([("text", "idle"), ("text", "rare"), ("int8", 50)], 1, 80),
    "lane_size_default": ([("text", "work"), ("int8", 50)], 1, 80),
    "fail_lane": ([("text", "idle"), ("text", "rare"), ("text", "why"), ("int8", 50)], 50, 1500),
    "fail_lane_default": ([("text", "work"), ("text", "why"), ("int8", 50)], 50, 1500),
    "renew": (
        [(INT8S, [*RUN[:20]]), (TEXTS, [f"token-{number}" for number in RUN[:20]]), ("float8", 1e6)],
        20,
        400,
    ),
    "renew_locked": ([(INT8S, [*RUN[:20]]), (TEXTS, [f"token-{number}" for number in RUN[:20]])], 20, 120),
    "settle": (
        [
            (INT8S, [*RUN[:20]]),
            (TEXTS, [f"token-{number}" for number in RUN[:20]]),
            (TEXTS, ["completed"] * 20),
            (TEXTS, NOTHING),
            (TEXTS, NOTHING),
            (TEXTS, NOTHING),
        ],
        20,
        500,
    ),
    "settle_claim": ([(INT8S, [*RUN[:20]]), (TEXTS, [f"token-{number}" for number in RUN[:20]])], 20, 250),
    "settle_wait": ([(INT8S, [*RUN[:20]]), (TEXTS, [f"token-{number}" for number in RUN[:20]])], 20, 250),
    "settle_recorded": ([(INT8S, [*SETTLED[:20]]), (TEXTS, [f"token-{number}" for number in SETTLED[:20]])], 20, 400),
    "find_jobs": ([(TEXTS, [f"job-{number}" for number in JOBS])], len(JOBS), 400),
    "find_outcome": ([(INT8S, [*FAIL[:20]])], 20, 250),
    "take_lease": ([(INT8S, [*RUN[:20]])], 0, 200),
    "take_outcome": ([(INT8S, [*FAIL[:20]])], 0, 250),
    "put_ready": (
        [
            (INT8S, [*FAIL[:20]]),
            (FLOATS, [0.0] * 20),
            *[(INT4S, [0] * 20)] * 3,
            *[(TEXTS, NOTHING)] * 3,
        ],
        20,
        700,
    ),
    "put_outcome": (
        [
            (INT8S, [*DUE[:20]]),
            (TEXTS, ["failed"] * 20),
            (TEXTS, NOTHING),
            *[(INT4S, [0] * 20)] * 3,
            *[(TEXTS, NOTHING)] * 5,
        ],
        0,
        500,
    ),
    "cancel": ([(INT8S, [*RUN[:20]]), (TEXTS, ["why"] * 20)], 0, 400),
    "cancel_claim": ([(INT8S, [*RUN[:20]])], 0, 120),
    "cancel_ready": ([(INT8S, [*DUE[:20]]), (TEXTS, ["why"] * 20)], 20, 700),
    "purge": ([("float8", 0.0), (TEXTS, ["failed"]), ("bool", True), ("int8", 50)], 50, 1500),
    "read": ([(TEXTS, [f"job-{number}" for number in JOBS])], len(JOBS), 1200),
    "read_plain": ([(TEXTS, [f"job-{number}" for number in JOBS])], len(JOBS), 1200),
    "jobs": ([("int8", PILE // 2), ("text", None), ("text", None), ("int8", 50)], 50, 80),
    "jobs_queued": ([("int8", DUE[0]), ("text", None), ("text", None), ("int8", 50)], 50, 400),
    "jobs_running": ([("int8", RUN[0]), ("text", None), ("text", None), ("int8", 50)], 50, 400),
    "jobs_settled": (
        [("int8", PILE // 2), ("text", None), ("text", None), ("int8", 50), ("text", None)],
        50,
        400,
    ),
    "dead_letters": (
        [("text", "failed"), ("timestamptz", "-infinity"), ("int8", 0), ("text", None), ("int8", 50)],
        50,
        400,
    ),
    "stats_settled": ([(TEXTS, ["completed", "failed", "cancelled"]), ("int8", 50)], 3, 200),
    "stats_queues": ([("int8", 50)], 2, 400),
    "next_wake": (
        [(TEXTS, []), (INT4S, []), (TIMES, []), (TEXTS, []), ("bool", True), ("bool", False)],
        1,
        150 + LEASE_PAGES,
    ),
    "has_pending_work": ([], 1, 10),
    "recover": ([("int8", 100)], 100, 500 + LEASE_PAGES),
    "recover_next": ([], 1, LEASE_PAGES),
    "stats_running": ([], 1, 900 + LEASE_PAGES),
    "claim_found": ([("text", f"token-{RUN[0]}")], 1, LEASE_PAGES),
}

CLAIMS = {
    "of one queue": (["work"], False, 20, 900),
    "of several": (["idle", "none", "work"], False, 20, 1200),
    "of all": ([], True, 20, 1200),
    "of one job": (["work"], False, 1, 150),
}

RARELY = {
    "notify": "no row",
    "notify_check": "no row",
    "schema_access": "at opening",
    "schema_exists": "at opening",
    "schema_identity": "once per connection of the caller's",
    "schema_lock": "while migrating",
    "schema_version": "at opening",
    "set_lane_limit": "one row",
    "set_lane_limit_none": "one row",
    "stats_snapshot": "one row per session",
    "claim": "below, in its variants",
    "claim_level": "below, beside them",
    "recover_claim": "one row, by its key, after the death of a process",
}

# They run in the caller's own transaction too, under whatever settings that has.
CALLERS = (
    *("ingest", "ingest_existing", "lane_limit", "lane_size", "lane_size_default", "find_jobs", "read_plain"),
    *("settle", "settle_wait", "settle_recorded", "take_lease", "put_ready", "put_outcome"),
)

# They read the claims that are running, and nothing else of what is stored.
READS_LEASES = {"recover", "recover_next", "stats_running", "next_wake", "claim_found"}


READY = "number, queue, lane, priority, available_at, late, attempts, given_back, recoveries"
OUTCOME = "number, kind, settled_at, attempts, given_back, recoveries, last_token"
LEASE = "number, lease_token, lease_until, worker, claimed_at, attempts, given_back, recoveries"


def fill(connection: psycopg.Connection[Any]) -> None:
    def insert(table: str, columns: str, values: str, numbers: range, *parameters: Any) -> None:
        rows = "generate_series(%s::bigint, %s::bigint) AS number"
        statement = f"INSERT INTO bandog.{table} ({columns}) SELECT {values} FROM {rows}"  # noqa: S608 - from here
        connection.execute(statement.encode(), (*parameters, numbers[0], numbers[-1]))

    def jobs(numbers: range, queue: str, priority: int = 0, lane: str = "default") -> None:
        columns = "number, job_id, queue, lane, priority, payload, admitted_at"
        values = "number, 'job-' || number, %s, %s, %s, '{}', now()"
        insert("job", columns, values, numbers, queue, lane, priority)

    def ready(numbers: range, queue: str, due: str, priority: int = 0, lane: str = "default") -> None:
        jobs(numbers, queue, priority, lane)
        values = "number, %s, %s, %s, now() + %s::interval + number * interval '1 microsecond', false, 0, 0, 0"
        insert("ready", READY, values, numbers, queue, lane, priority, due)

    def outcomes(numbers: range, kind: str) -> None:
        jobs(numbers, "work")
        settled_at = "now() - interval '1 hour' + number * interval '1 microsecond'"
        insert("outcome", OUTCOME, f"number, %s, {settled_at}, 1, 0, 0, 'token-' || number", numbers, kind)

    connection.execute("ALTER SEQUENCE bandog.job_number_seq RESTART 1000000")
    outcomes(SETTLED, "completed")
    outcomes(FAIL, "failed")
    ready(WAITING, "idle", "-1 hour", lane="full")
    ready(LATER, "work", "1 day", priority=5)
    ready(DUE, "work", "-1 minute")
    ready(LANE, "idle", "-1 minute", lane="rare")
    # What jobs that have run leave behind while nobody may clean up.
    insert("lease", LEASE, "number, 'token', now(), 'w', now(), 1, 0, 0", SETTLED)
    connection.execute("DELETE FROM bandog.lease")
    jobs(RUN, "work")
    ends = "now() + CASE WHEN number < %s THEN interval '1 hour' ELSE interval '-1 hour' END"
    insert("lease", LEASE, f"number, 'token-' || number, {ends}, 'w', now(), 1, 0, 0", RUN, RUN[RUNNING // 2])


@contextmanager
def own_database(postgres_url: str, name: str) -> Iterator[psycopg.Connection[Any]]:
    """One with our tables, which nobody vacuums or analyzes: statistics that come by themselves would change plans."""
    with closing(psycopg.connect(postgres_url, autocommit=True)) as server:
        server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        server.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'".encode())
        url = in_database(postgres_url, name)
        bandog.migrate(url)
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            for table in ("job", "ready", "lease", "outcome", "lane_limit"):
                connection.execute(f"ALTER TABLE bandog.{table} SET (autovacuum_enabled = false)".encode())
            yield connection
        server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(scope="module", params=["no statistics", "statistics", "statistics of the empty tables"])
def filled(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with own_database(postgres_url, "bandog_plans") as connection:
        if request.param == "statistics of the empty tables":
            connection.execute("ANALYZE")
        with connection.transaction():
            fill(connection)
        if request.param == "statistics":
            connection.execute("ANALYZE")
        yield connection


@pytest.fixture(params=["for its values", "for all values"])
def connection(request: pytest.FixtureRequest, filled: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    mode = "force_custom_plan" if request.param == "for its values" else "force_generic_plan"
    filled.execute(f"SET plan_cache_mode = {mode}".encode())
    filled.execute("SET max_parallel_workers_per_gather = 0")
    return filled


class Plan:
    """What a run of a statement read. What it changed is taken back."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        name: str,
        parameters: list[tuple[str, Any]],
        planning: str = PLANNING,
    ) -> None:
        types = f"({', '.join(of for of, _ in parameters)})" if parameters else ""
        values = f"({', '.join(['%s'] * len(parameters))})" if parameters else ""
        with connection.transaction(force_rollback=True), psycopg.ClientCursor(connection) as cursor:
            cursor.execute(f"DEALLOCATE ALL; {planning}".encode())
            cursor.execute(f"PREPARE it{types} AS {statement('postgres', name)}".encode())
            cursor.execute(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE it{values}".encode(),
                [value for _, value in parameters],
            )
            ((answer,),) = cursor.fetchall()
        (explained,) = answer if isinstance(answer, list) else json.loads(answer)
        self.root = explained["Plan"]
        self.rows = self.root["Actual Rows"]
        self.pages = self.root["Shared Hit Blocks"] + self.root["Shared Read Blocks"]

    def nodes(self, node: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        node = self.root if node is None else node
        yield node
        for below in node.get("Plans", ()):
            yield from self.nodes(below)

    def scanned(self) -> set[str]:
        """The tables of which every row was read, or was to be."""
        return {
            node["Relation Name"]
            for node in self.nodes()
            if node["Node Type"] == "Seq Scan" and node["Relation Name"] != "lane_limit"
        }

    def text(self) -> str:
        return json.dumps(self.root, indent=1)


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_reads_what_it_returns(connection, name):
    parameters, rows, pages = HOT[name]
    plan = Plan(connection, name, parameters)
    assert plan.rows == rows
    assert plan.pages <= pages, plan.text()
    assert plan.scanned() <= ({"lease"} if name in READS_LEASES else set()), plan.text()


@pytest.mark.parametrize("name", CALLERS)
def test_a_statement_of_the_callers_transaction_needs_no_settings(connection, name):
    """All that it may read beside what it returns are the claims that are running."""
    parameters, rows, pages = HOT[name]
    plan = Plan(connection, name, parameters, planning="")
    assert plan.rows == rows
    assert plan.pages <= pages + LEASE_PAGES, plan.text()
    assert plan.scanned() <= {"lease"}, plan.text()


def claim(known: int, variant: str, since: str = "-infinity") -> list[tuple[str, Any]]:
    queues, everywhere, limit, _ = CLAIMS[variant]
    return [
        (TEXTS, ["work"] * known),
        (INT4S, [5, 0][:known]),
        (TIMES, [since] * known),
        (TEXTS, queues),
        ("bool", everywhere),
        ("int8", limit),
        ("text", "token"),
        ("text", "worker"),
        ("float8", 1e6),
        ("timestamptz", "infinity"),
        ("int8", limit + 20),
    ]


@pytest.mark.parametrize("known", [0, 2])
@pytest.mark.parametrize("variant", CLAIMS)
def test_a_claim_reads_what_it_claims(connection, variant, known):
    limit, pages = CLAIMS[variant][2:]
    plan = Plan(connection, "claim", claim(known, variant))
    assert plan.rows == limit
    assert plan.pages <= pages, plan.text()
    assert plan.scanned() == set(), plan.text()


@pytest.mark.parametrize(("queue", "everywhere", "rows"), [("idle", False, 20), ("idle", True, 1), ("work", False, 1)])
def test_a_claim_from_one_level_reads_what_it_claims(connection, queue, everywhere, rows):
    """Or what it takes to see that there is more: another queue, or the pile of another priority."""
    plan = Plan(connection, "claim_level", claim_level(queue, everywhere=everywhere))
    assert plan.rows == rows
    assert plan.pages <= 300, plan.text()
    assert plan.scanned() == set(), plan.text()


def claim_level(queue: str, *, everywhere: bool) -> list[tuple[str, Any]]:
    level = [("text", queue), ("int4", 0), ("timestamptz", "-infinity"), (TEXTS, []), ("bool", everywhere)]
    made = [("int8", 20), ("text", "token"), ("text", "worker"), ("float8", 1e6), ("timestamptz", "infinity")]
    return [*level, *made]


def test_a_claim_from_a_position_leaves_out_what_is_dead_before_it(connection):
    """Rows that were claimed while somebody holds a snapshot cannot be cleaned up: C20."""
    with connection.transaction(force_rollback=True):
        connection.execute("UPDATE bandog.ready SET priority = 0 WHERE number = ANY (%s)", ([*DUE],))
        connection.execute("DELETE FROM bandog.ready WHERE queue = 'idle' AND number = ANY (%s)", ([*WAITING[:-50]],))
        since = connection.execute("SELECT min(available_at)::text FROM bandog.ready WHERE queue = 'idle'").fetchone()[
            0
        ]
        parameters = claim(0, "of one queue")
        parameters[3] = (TEXTS, ["idle"])
        wading = Plan(connection, "claim", parameters).pages
        parameters[:3] = [(TEXTS, ["idle"]), (INT4S, [0]), (TIMES, [since])]
        plan = Plan(connection, "claim", parameters)
        assert plan.rows == 20
        assert plan.pages <= 300 < wading / 3


def test_a_renewal_writes_no_index(filled):
    """The new version of a row stays on its page: a heap-only update."""
    count = (
        "SELECT pg_stat_get_xact_tuples_hot_updated('bandog.lease'::regclass),"
        " pg_stat_get_xact_tuples_updated('bandog.lease'::regclass)"
    )
    hot_before, before = filled.execute(count).fetchone()
    with filled.transaction(force_rollback=True), psycopg.ClientCursor(filled) as cursor:
        cursor.execute(f"PREPARE renewal(int8[], text[], float8) AS {statement('postgres', 'renew')}".encode())
        tokens = [f"token-{number}" for number in RUN[:50]]
        cursor.execute("EXECUTE renewal(%s, %s, %s)", ([*RUN[:50]], tokens, 1e6))
        cursor.execute("DEALLOCATE renewal")
        hot, every = filled.execute(count).fetchone()
    assert every - before == 50
    assert hot - hot_before == 50


def test_the_piles_are_there(filled):
    counts = [
        filled.execute(f"SELECT count(*) FROM bandog.{table}".encode()).fetchone()[0]  # noqa: S608 - from here
        for table in ("outcome", "ready", "lease")
    ]
    assert counts == [PILE + FAILED, 2 * PILE + len(DUE) + RARE, RUNNING]


def test_a_pass_over_a_pile_would_be_noticed(connection):
    with connection.transaction(force_rollback=True), psycopg.ClientCursor(connection) as cursor:
        cursor.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT count(*) FROM bandog.ready WHERE attempts = 1")
        ((answer,),) = cursor.fetchall()
    plan = answer[0]["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] > 400


STATEMENTS = sorted(
    entry.name.removesuffix(".sql")
    for entry in (files("bandog.sql") / "postgres").iterdir()
    if entry.name.endswith(".sql")
)


def test_every_statement_is_either_guarded_here_or_rare():
    assert set(STATEMENTS) == set(HOT) | set(RARELY)


@pytest.mark.parametrize("name", [*CALLERS, "schema_identity"])
def test_what_the_callers_transaction_runs_leaves_nothing_to_its_search_path(name):
    lines = [line for line in statement("postgres", name).splitlines() if not line.startswith("--")]
    body = "\n".join(lines)
    # Operators have their schema, and so have the types of all parameters, from which those of the others follow.
    bare = re.sub(r"OPERATOR\(pg_catalog\.(?:[=<>+*-]|<>|<=|>=)\)|count\(\*\)|'/'|\b\w+\.\*|SELECT \*", "", body)
    assert not re.search(r"[=<>+*/%|~]|\bIN\b|\bDISTINCT FROM\b|\bBETWEEN\b|\bLIKE\b|\bUSING \(", bare), bare
    assert not re.search(r"\$\d+(?!\d|::pg_catalog\.)", body)
    assert not re.search(r"::(?!pg_catalog\.|timestamp with time zone)", body)
    assert not re.search(r"(?<!pg_catalog\.)\bunnest\([^,()]*\)", body), "of one array, it is a name like others"


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_file_keeps_the_rules_of_the_folder(name):
    text = statement("postgres", name)
    numbers = {int(number) for number in re.findall(r"\$(\d+)", text)}
    assert numbers == set(range(1, len(numbers) + 1)), "parameters are numbered without gaps"
    lines = text.strip().splitlines()
    assert lines[0].startswith("-- "), "the first line says what it is for"
    body = "\n".join(line for line in lines if not line.startswith("--"))
    assert "--" not in body, "no comment after the beginning of the statement"
    assert ";" not in body, "one statement"
    assert not re.search(r"\bnow\(\)|\bclock_timestamp\b|\bCURRENT_\w+", body), "the time is that of bandog.clock()"
    # Names that the search path would have to find.
    functions = set(re.findall(r"(?<![.\w])(\w+)\(", body))
    assert functions <= {"unnest", "coalesce", "least", "OPERATOR", "AS", "IN", "ARRAY", "ANY", "VALUES", "WITH"} | {
        name for name in functions if re.search(rf"\b{name} ?\(.*\) AS ", body) is None and name in {"SELECT", "EXISTS"}
    }, functions
    for table in ("job", "ready", "lease", "outcome", "lane_limit", "migration"):
        assert not re.search(rf"\b(FROM|JOIN|INTO|UPDATE|USING) {table}\b", body), table
