"""The planner uses the index that was built for each statement, however the tables are filled.

What is loaded is what goes wrong elsewhere: a pile of settled jobs, a pile of waiting ones in a queue that nobody works
on, and a pile of jobs of a later time at a higher priority. The plan of every hot statement is a search, with and
without statistics; and, whatever the plan says, running it takes a number of steps that does not grow with the tables.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files

import pytest

from bandog.sql import migrations, statement

PILE = 20_000
RUNNING = 2_000
NOW = 1_700_000_000_000_000
HOLDER = "holder-1"
FIRST_READY, LAST_READY = PILE + 1, 3 * PILE + 10
FIRST_RUNNING = LAST_READY + 1

BY_NUMBER = "INTEGER PRIMARY KEY (rowid=?)"
BY_ID = "INDEX sqlite_autoindex_bandog_job_1 (job_id=?)"

# Statement, parameters, and the searches that its plan consists of.
HOT = {
    "claim": (("work", 0, NOW, 50), ["INDEX bandog_ready_order (queue=? AND priority=? AND available_at<?)"]),
    "claim_job": ((FIRST_READY,), [BY_NUMBER]),
    "claim_lease": ((LAST_READY, HOLDER, NOW, "w", NOW, 1, 0, 0, None, None, None), []),
    "claim_priority": (("work", 9), ["INDEX bandog_ready_order (queue=? AND priority<?)"]),
    "claim_queue": (("",), ["INDEX bandog_ready_order (queue>?)"]),
    "claim_take": ((FIRST_READY,), [BY_NUMBER]),
    "find_claim": ((FIRST_RUNNING, HOLDER, 1), [BY_NUMBER]),
    "find_job": (("job-5",), [BY_ID]),
    "ingest": ((10**9, "new", "work", "lane", 0, "1", None, None, None, None, None, None, NOW), []),
    "ingest_existing": (("job-5", "work", "lane", 0, "1", None, None), [BY_ID]),
    "next_wake_lease": ((), ["INDEX bandog_lease_end (lease_until>?)"]),
    "next_wake_ready": (("work", 0), ["INDEX bandog_ready_order (queue=? AND priority=?)"]),
    "put_outcome": ((LAST_READY, "completed", NOW, "w", 1, 0, 0, None, None, None, HOLDER, None), []),
    "put_ready": ((1, "work", "lane", 0, NOW, 0, 0, 0, 0, None, None, None), []),
    "read": ((f"job-{FIRST_RUNNING}",), [BY_ID, BY_NUMBER, BY_NUMBER, BY_NUMBER]),
    "recover": ((NOW, 100), ["INDEX bandog_lease_end (lease_until<?)", BY_NUMBER]),
    "recover_take": ((FIRST_RUNNING,), [BY_NUMBER]),
    "renew": ((FIRST_RUNNING, HOLDER, 1, NOW), [BY_NUMBER]),
    "settle": ((FIRST_RUNNING, HOLDER, 1), [BY_NUMBER]),
    "settle_job": ((FIRST_RUNNING,), [BY_NUMBER]),
    "settle_recorded": ((FIRST_RUNNING, HOLDER), [BY_NUMBER, BY_NUMBER, BY_NUMBER]),
    "stands_job": ((FIRST_RUNNING,), [BY_NUMBER]),
    "stands_lease": ((FIRST_RUNNING, HOLDER, NOW), [BY_NUMBER]),
    "stands_no_lease": ((FIRST_RUNNING, HOLDER), [BY_NUMBER]),
}

# Their plans are called scans: of a table with one row, or of which the first row is read.
FIRST_ROW = {"has_pending_work": (), "ingest_counter": (), "ingest_counter_set": (10**9,), "clock": ()}

# Run at opening, or after the clock was set back: they may read what they change.
RARE = {
    "clock_boot_set",
    "clock_offset_set",
    "clock_start",
    "recover_boot",
    "recover_clock",
    "schema_applied",
    "schema_exists",
    "schema_version",
}

# More than any of them takes for its rows, far fewer than one pass over a pile.
MOST_STEPS = {"claim": 50 * 40, "recover": 100 * 80}
MOST_STEPS_OF_ANY_OTHER = 400


def folder() -> dict[str, str]:
    """Every statement, by name."""
    sqlite = files("bandog.sql") / "sqlite"
    return {
        entry.name.removesuffix(".sql"): entry.read_text(encoding="utf-8")
        for entry in sqlite.iterdir()
        if entry.name.endswith(".sql")
    }


def fill(connection: sqlite3.Connection) -> None:
    job = (
        "INSERT INTO bandog_job (number, job_id, queue, lane, priority, payload, admitted_at)"
        " VALUES (?1, 'job-' || ?1, ?2, 'lane', ?3, '{}', ?4)"
    )
    ready = statement("sqlite", "put_ready")
    settled = range(1, PILE + 1)
    waiting = [(number, "idle", 0, NOW - PILE + number) for number in range(PILE + 1, 2 * PILE + 1)]
    later = [(number, "work", 5, NOW + number) for number in range(2 * PILE + 1, 3 * PILE + 1)]
    due = [(number, "work", 0, NOW - 100 + number - 3 * PILE) for number in range(3 * PILE + 1, LAST_READY + 1)]
    running = range(FIRST_RUNNING, FIRST_RUNNING + RUNNING)
    connection.executemany(job, ((number, "work", 0, NOW) for number in (*settled, *running)))
    connection.executemany(
        statement("sqlite", "put_outcome"),
        ((number, "completed", NOW, "w", 1, 0, 0, None, None, None, f"t-{number}", None) for number in settled),
    )
    queued = [*waiting, *later, *due]
    connection.executemany(job, ((number, queue, priority, NOW) for number, queue, priority, _ in queued))
    connection.executemany(
        ready,
        (
            (number, queue, "lane", priority, available_at, 0, 0, 0, 0, None, None, None)
            for number, queue, priority, available_at in queued
        ),
    )
    connection.executemany(
        statement("sqlite", "claim_lease"),
        (
            (number, HOLDER, NOW + number - FIRST_RUNNING - 50, "w", NOW, 1, 0, 0, None, None, None)
            for number in running
        ),
    )


@pytest.fixture(scope="module", params=["no statistics", "statistics", "statistics of the empty tables"])
def connection(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("plans") / "jobs.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        for migration in migrations("sqlite"):
            opened.executescript(migration)
        if request.param == "statistics of the empty tables":
            opened.execute("ANALYZE")
        opened.execute("BEGIN")
        fill(opened)
        opened.execute("COMMIT")
        if request.param == "statistics":
            opened.execute("ANALYZE")
        yield opened


def plan(connection: sqlite3.Connection, name: str, parameters: tuple[object, ...]) -> list[str]:
    rows = connection.execute(f"EXPLAIN QUERY PLAN {statement('sqlite', name)}", parameters)
    return [detail for _, _, _, detail in rows]


def steps(connection: sqlite3.Connection, name: str, parameters: tuple[object, ...]) -> int:
    """How many instructions of SQLite's machine a run takes. What it changed is taken back."""
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    connection.execute("BEGIN")
    try:
        connection.set_progress_handler(count, 1)
        connection.execute(statement("sqlite", name), parameters).fetchall()
    finally:
        connection.set_progress_handler(None, 1)
        connection.execute("ROLLBACK")
    return taken


@pytest.mark.parametrize("name", HOT)
def test_every_step_of_a_hot_statement_is_a_search_by_the_index_that_was_built_for_it(connection, name):
    parameters, searches = HOT[name]
    details = plan(connection, name, parameters)
    # SELECT EXISTS (...) has one made-up row on the outside.
    details = [detail for detail in details if detail != "SCAN CONSTANT ROW"]
    assert not [detail for detail in details if "SCAN" in detail or "TEMP B-TREE" in detail], details
    found = [detail for detail in details if detail.startswith("SEARCH")]
    assert len(found) == len(searches), details
    for detail, search in zip(found, searches, strict=True):
        assert detail.removesuffix(" LEFT-JOIN").endswith(search), (detail, search)


@pytest.mark.parametrize("name", [*HOT, *FIRST_ROW])
def test_a_hot_statement_takes_no_more_steps_where_the_tables_are_full(connection, name):
    parameters = HOT[name][0] if name in HOT else FIRST_ROW[name]
    assert 0 < steps(connection, name, parameters) <= MOST_STEPS.get(name, MOST_STEPS_OF_ANY_OTHER)


def test_the_piles_are_there(connection):
    counts = [
        connection.execute(f"SELECT count(*) FROM bandog_{table}").fetchone()[0]  # noqa: S608 - names from here
        for table in ("job", "outcome", "ready", "lease")
    ]
    assert counts == [3 * PILE + 10 + RUNNING, PILE, 2 * PILE + 10, RUNNING]
    # The statements above find something to do.
    for name, rows in (("claim", 10), ("recover", 51), ("settle_job", 1), ("read", 1)):
        assert len(connection.execute(statement("sqlite", name), HOT[name][0]).fetchall()) == rows


def test_a_pass_over_a_pile_would_be_noticed(connection):
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    connection.set_progress_handler(count, 1)
    connection.execute("SELECT count(*) FROM bandog_ready WHERE held = 1").fetchall()
    connection.set_progress_handler(None, 1)
    assert taken > 10 * max(MOST_STEPS.values()) / 2


def test_every_statement_is_either_guarded_here_or_rare():
    assert set(folder()) - set(FIRST_ROW) - RARE == set(HOT)


@pytest.mark.parametrize("name", sorted(folder()))
def test_every_file_prepares_and_keeps_the_rules_of_the_folder(connection, name):
    text = folder()[name]
    numbers = {int(number) for number in re.findall(r"\?(\d+)", text)}
    assert numbers == set(range(1, len(numbers) + 1)), "parameters are numbered without gaps"
    connection.execute(f"EXPLAIN {text}", (1,) * len(numbers)).fetchall()
    lines = text.strip().splitlines()
    assert lines[0].startswith("-- "), "the first line says what it is for"
    body = [line for line in lines if not line.startswith("--")]
    assert "?" not in re.sub(r"\?\d+", "", "".join(body))
    assert not any("--" in line or ";" in line for line in body), "one statement, and no comment after its beginning"
    assert lines[-1] == body[-1]
    assert not re.search(r"(\?\d+\s*(\+|-|\*|/|%|\|\|))|((\+|-|\*|/|%|\|\|)\s*\?\d+)", "\n".join(body)), (
        "some hosts bind every number as a double: no arithmetic on one"
    )


def test_an_unknown_statement_is_an_error():
    with pytest.raises(FileNotFoundError):
        statement("sqlite", "no such statement")
