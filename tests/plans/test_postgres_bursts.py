"""Batches of a thousand, where the statistics are of a moment at which the tables held one row on many pages.

Autovacuum looks at `ready` and `lease` again and again, and may find them nearly empty between two batches. A planner
that believes it would rather compare each row of the table with each of the batch than look the rows up: a thousand
reports took two seconds, and drains fell to a tenth of their speed until the next look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from test_postgres_plans import FLOATS, INT4S, INT8S, LEASE, READY, TEXTS, TIMES, Plan, own_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

BATCH = 1_000
RUN = range(10_001, 10_001 + BATCH)
DUE = range(20_001, 20_001 + BATCH)
GONE = range(1, 5_001)

TOKENS = [f"token-{number}" for number in RUN]
NOTHING = [None] * BATCH

NAMED = [(INT8S, [*RUN]), (TEXTS, TOKENS)]
STATEMENTS: dict[str, tuple[list[tuple[str, Any]], int]] = {
    "settle": ([*NAMED, (TEXTS, ["completed"] * BATCH), (TEXTS, NOTHING), (TEXTS, NOTHING), (TEXTS, NOTHING)], BATCH),
    "settle_claim": (NAMED, BATCH),
    "settle_wait": (NAMED, BATCH),
    "settle_recorded": (NAMED, BATCH),
    "renew": ([*NAMED, ("float8", 1e6)], BATCH),
    "renew_locked": (NAMED, BATCH),
    "cancel": ([(INT8S, [*RUN]), (TEXTS, ["why"] * BATCH)], 0),
    "cancel_ready": ([(INT8S, [*DUE]), (TEXTS, ["why"] * BATCH)], BATCH),
    "take_lease": ([(INT8S, [*RUN])], 0),
    "put_ready": (
        [(INT8S, [*RUN]), (FLOATS, [0.0] * BATCH), *[(INT4S, [0] * BATCH)] * 3, *[(TEXTS, NOTHING)] * 3],
        BATCH,
    ),
    "claim": (
        [
            *((TEXTS, ["work"]), (INT4S, [0]), (TIMES, ["-infinity"]), (TEXTS, ["work"]), ("bool", False)),
            *(("int8", BATCH), ("text", "token"), ("text", "worker"), ("float8", 1e6), ("timestamptz", "infinity")),
            ("int8", BATCH + 20),
        ],
        BATCH,
    ),
    "claim_level": (
        [
            *(("text", "work"), ("int4", 0), ("timestamptz", "-infinity"), (TEXTS, ["other"]), ("bool", False)),
            *(("int8", BATCH), ("text", "token"), ("text", "worker"), ("float8", 1e6), ("timestamptz", "infinity")),
        ],
        BATCH,
    ),
}


@pytest.fixture(scope="module")
def nearly_empty(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with own_database(postgres_url, "bandog_plans_bursts") as connection:
        fill(connection)
        yield connection


def fill(connection: psycopg.Connection[Any]) -> None:
    def insert(table: str, columns: str, values: str, numbers: range) -> None:
        rows = f"generate_series({numbers[0]}, {numbers[-1]}) AS number"
        connection.execute(f"INSERT INTO bandog.{table} ({columns}) SELECT {values} FROM {rows}".encode())  # noqa: S608

    job = "number, job_id, queue, lane, priority, payload, admitted_at"
    lease = "number, 'token-' || number, now() + interval '1 hour', 'w', now(), 1, 0, 0"
    ready = "number, 'work', 'default', 0, now() - interval '1 minute', false, 0, 0, 0"
    insert("lease", LEASE, lease, GONE)
    insert("ready", READY, ready, GONE)
    for table in ("ready", "lease"):
        # The last page keeps a row, so that the others are not given back.
        connection.execute(f"DELETE FROM bandog.{table} WHERE number < {GONE[-1]}".encode())  # noqa: S608
        connection.execute(f"VACUUM ANALYZE bandog.{table}".encode())
        connection.execute(f"DELETE FROM bandog.{table}".encode())  # noqa: S608
    for numbers in (RUN, DUE):
        insert("job", job, "number, 'job-' || number, 'work', 'default', 0, '{}', now()", numbers)
    insert("lease", LEASE, lease, RUN)
    insert("ready", READY, ready, DUE)


def test_the_statistics_mislead(nearly_empty: psycopg.Connection[Any]) -> None:
    for table in ("ready", "lease"):
        found = nearly_empty.execute(
            "SELECT reltuples, relpages FROM pg_class WHERE oid = %s::regclass", (f"bandog.{table}",)
        ).fetchone()
        assert found is not None
        rows, pages = found
        assert rows <= 1
        assert pages > 30


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_batch_is_looked_up_row_by_row(nearly_empty: psycopg.Connection[Any], name: str, mode: str) -> None:
    nearly_empty.execute(f"SET plan_cache_mode = {mode}".encode())
    parameters, rows = STATEMENTS[name]
    plan = Plan(nearly_empty, name, parameters)
    assert plan.rows == rows
    compared = [node.get("Rows Removed by Join Filter", 0) for node in plan.nodes()]
    read = [node["Actual Rows"] * node["Actual Loops"] for node in plan.nodes() if "Scan" in node["Node Type"]]
    assert max(compared) <= 2 * BATCH, plan.text()
    assert max(read) <= 2 * BATCH, plan.text()
    assert plan.pages <= 40 * BATCH, plan.text()
