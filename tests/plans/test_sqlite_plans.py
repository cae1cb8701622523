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
FAILED = PILE // 2
RUNNING = 2_000
RARE_LANE = 100
NOW = 1_700_000_000_000_000
HOLDER = "holder-1"
FIRST_READY, LAST_READY = PILE + 1, 3 * PILE + 10
FIRST_RUNNING = LAST_READY + 1
FIRST_FAILED = FIRST_RUNNING + RUNNING
FIRST_RARE = FIRST_FAILED + FAILED
FIRST_PLAIN = FIRST_RARE + RARE_LANE

BY_NUMBER = "INTEGER PRIMARY KEY (rowid=?)"
AFTER_NUMBER = "INTEGER PRIMARY KEY (rowid>?)"
BY_ID = "INDEX sqlite_autoindex_bandog_job_1 (job_id=?)"
BY_LANE = "INDEX sqlite_autoindex_bandog_lane_limit_1 (queue=? AND lane=?)"

# Statement, parameters, and the searches that its plan consists of.
HOT = {
    "cancel": ((FIRST_RUNNING, NOW, "why"), [BY_NUMBER]),
    "cancel_claim": ((FIRST_RUNNING,), [BY_NUMBER]),
    "claim": (("work", 0, NOW, 50), ["INDEX bandog_ready_order (queue=? AND priority=? AND available_at<?)"]),
    "claim_job": ((FIRST_READY,), [BY_NUMBER]),
    "claim_lease": ((LAST_READY, HOLDER, NOW, "w", NOW, 1, 0, 0, None, None, None), []),
    "claim_probed": ((), ["INDEX bandog_lease_end (lease_until=?)"]),
    "claim_next": (
        ("work", 0, NOW),
        ["INDEX bandog_ready_order (queue=? AND priority=? AND available_at>?)"],
    ),
    "claim_priority": (("work", 9), ["INDEX bandog_ready_order (queue=? AND priority<?)"]),
    "claim_queue": (("",), ["INDEX bandog_ready_order (queue>?)"]),
    "dead_letters": (
        ("failed", NOW + 500, FIRST_FAILED, None, 50),
        ["INDEX bandog_outcome_other (kind=? AND settled_at>?)", BY_NUMBER],
    ),
    "fail_lane": (("idle", "rare", 50), ["INDEX bandog_ready_lane (queue=? AND lane=?)"]),
    "fail_lane_default": (("plain", 50), ["INDEX bandog_ready_order (queue=?)"]),
    "find_claim": ((FIRST_RUNNING, HOLDER, 1), [BY_NUMBER]),
    "find_job": (("job-5",), [BY_ID]),
    "find_outcome": ((5,), [BY_NUMBER]),
    "find_ready": ((FIRST_READY,), [BY_NUMBER]),
    "ingest": ((10**9, "new", "work", "lane", 0, "1", None, None, None, None, None, None, NOW), []),
    "ingest_existing": (("job-5", "work", "lane", 0, "1", None, None), [BY_ID]),
    "jobs": ((PILE // 2, None, None, 50), [AFTER_NUMBER]),
    "jobs_queued": ((FIRST_READY + 9, None, None, 50), [AFTER_NUMBER, BY_NUMBER]),
    "jobs_running": ((FIRST_RUNNING + 9, None, None, 50), [AFTER_NUMBER, BY_NUMBER]),
    "jobs_settled": ((PILE // 2, None, None, 50, None), [AFTER_NUMBER, BY_NUMBER]),
    "lane_limit": (("work", "lane"), [BY_LANE]),
    "lane_size": (("idle", "lane", 50), ["INDEX bandog_ready_lane (queue=? AND lane=?)"]),
    "lane_size_default": (("plain", 50), ["INDEX bandog_ready_order (queue=?)"]),
    "next_wake_lease": ((), ["INDEX bandog_lease_end (lease_until>?)"]),
    "next_wake_ready": (("work", 0), ["INDEX bandog_ready_order (queue=? AND priority=?)"]),
    "purge": (("failed", NOW + 500, 50), ["INDEX bandog_outcome_other (kind=? AND settled_at<?)"]),
    "purge_completed": ((NOW, 50), ["INDEX bandog_outcome_completed (settled_at<?)"]),
    "put_outcome": ((LAST_READY, "completed", NOW, "w", 1, 0, 0, None, None, None, HOLDER, None), []),
    "put_ready": ((1, "work", "lane", 0, NOW, 0, 0, 0, 0, None, None, None), []),
    "read": ((f"job-{FIRST_RUNNING}",), [BY_ID, BY_NUMBER, BY_NUMBER, BY_NUMBER]),
    "recover": ((NOW, 100), ["INDEX bandog_lease_end (lease_until<?)", BY_NUMBER]),
    "recover_claim": ((FIRST_RUNNING, HOLDER), [BY_NUMBER, BY_NUMBER]),
    "renew": ((FIRST_RUNNING, HOLDER, 1, NOW), [BY_NUMBER]),
    "set_lane_limit": (("work", "lane", 5), []),
    "set_lane_limit_none": (("work", "lane"), [BY_LANE]),
    "settle": ((FIRST_RUNNING, HOLDER, 1), [BY_NUMBER]),
    "settle_job": ((FIRST_RUNNING,), [BY_NUMBER]),
    "settle_recorded": ((FIRST_RUNNING, HOLDER), [BY_NUMBER, BY_NUMBER, BY_NUMBER]),
    "stands_cancel": ((FIRST_RUNNING,), [BY_NUMBER]),
    "stands_job": ((FIRST_RUNNING,), [BY_NUMBER]),
    "stands_lease": ((FIRST_RUNNING, HOLDER, NOW), [BY_NUMBER]),
    "stands_no_lease": ((FIRST_RUNNING, HOLDER), [BY_NUMBER]),
    "stands_outcome": ((FIRST_RUNNING,), [BY_NUMBER]),
    "stands_ready": ((FIRST_RUNNING,), [BY_NUMBER]),
    "stats_due": (("idle", 0, NOW, 50), ["INDEX bandog_ready_order (queue=? AND priority=? AND available_at<?)"]),
    "stats_queued": (("idle", 50), ["INDEX bandog_ready_order (queue=?)"]),
    "stats_settled": (("failed", 50), ["INDEX bandog_outcome_other (kind=?)"]),
    "take_job": ((5,), [BY_NUMBER]),
    "take_lease": ((FIRST_RUNNING,), [BY_NUMBER]),
    "take_outcome": ((5,), [BY_NUMBER]),
    "take_ready": ((FIRST_READY,), [BY_NUMBER]),
}

# Their plans are called scans: of a table with one row, or of which as many rows are read as are asked for.
FIRST_ROWS = {
    "clock": (),
    "has_pending_work": (),
    "lane_limit_any": (),
    "ingest_counter": (),
    "ingest_counter_set": (10**9,),
    "stats_completed": (50,),
}

# They read the claims that are running, or that a probe stands for; and nothing but them.
RUNNING_CLAIMS = {"adopt": (NOW,), "probe": (NOW, 0), "stats_running": ()}

# Run at opening, or after the clock was set back: they may read what they change.
RARE = {
    "clock_boot_set",
    "next_wake_overtaken",
    "clock_offset_set",
    "clock_start",
    "recover_boot",
    "recover_clock",
    "schema_applied",
    "schema_exists",
    "schema_version",
}

# More than any of them takes for its rows, far fewer than one pass over a pile.
MOST_STEPS = {
    **dict.fromkeys(("claim", "fail_lane", "fail_lane_default", "jobs", "lane_size", "lane_size_default"), 50 * 40),
    **dict.fromkeys(("dead_letters", "jobs_queued", "jobs_running", "jobs_settled", "purge"), 50 * 40),
    **dict.fromkeys(("purge_completed", "stats_completed", "stats_due", "stats_queued", "stats_settled"), 50 * 40),
    "recover": 100 * 80,
}
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
    failed = range(FIRST_FAILED, FIRST_FAILED + FAILED)
    connection.executemany(job, ((number, "work", 0, NOW) for number in (*settled, *running, *failed)))
    connection.executemany(
        statement("sqlite", "put_outcome"),
        ((number, "completed", NOW, "w", 1, 0, 0, None, None, None, f"t-{number}", None) for number in settled),
    )
    connection.executemany(
        statement("sqlite", "put_outcome"),
        (
            (number, "failed", NOW + number - FIRST_FAILED, "w", 1, 0, 0, None, "why", None, f"t-{number}", None)
            for number in failed
        ),
    )
    # A lane with little in it, in a queue whose other lane is full; and a queue that uses no lanes.
    rare = [(number, "idle", 0, NOW) for number in range(FIRST_RARE, FIRST_RARE + RARE_LANE)]
    plain = [(number, "plain", number % 3, NOW) for number in range(FIRST_PLAIN, FIRST_PLAIN + PILE)]
    lanes = {
        **dict.fromkeys((number for number, *_ in rare), "rare"),
        **dict.fromkeys((number for number, *_ in plain), "default"),
    }
    queued = [*waiting, *later, *due, *rare, *plain]
    connection.executemany(job, ((number, queue, priority, NOW) for number, queue, priority, _ in queued))
    connection.executemany(
        ready,
        (
            (number, queue, lanes.get(number, "lane"), priority, available_at, 0, 0, 0, 0, None, None, None)
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
    # SELECT EXISTS (...) has one made-up row on the outside; a count reads what its inner part found.
    details = [detail for detail in details if detail not in {"SCAN CONSTANT ROW", "SCAN (subquery-1)"}]
    assert not [detail for detail in details if "SCAN" in detail or "TEMP B-TREE" in detail], details
    found = [detail for detail in details if detail.startswith("SEARCH")]
    assert len(found) == len(searches), details
    for detail, search in zip(found, searches, strict=True):
        assert detail.removesuffix(" LEFT-JOIN").endswith(search), (detail, search)


@pytest.mark.parametrize("name", [*HOT, *FIRST_ROWS])
def test_a_hot_statement_takes_no_more_steps_where_the_tables_are_full(connection, name):
    parameters = HOT[name][0] if name in HOT else FIRST_ROWS[name]
    assert 0 < steps(connection, name, parameters) <= MOST_STEPS.get(name, MOST_STEPS_OF_ANY_OTHER)


@pytest.mark.parametrize("name", RUNNING_CLAIMS)
def test_a_statement_about_running_claims_reads_nothing_else(connection, name):
    details = plan(connection, name, RUNNING_CLAIMS[name])
    assert not [detail for detail in details if "bandog_ready" in detail or "bandog_outcome" in detail], details
    assert not [detail for detail in details if detail.startswith("SCAN") and "bandog_lease_end" not in detail], details
    # None of these claims is a probe's.
    most = RUNNING * 40 if name == "stats_running" else MOST_STEPS_OF_ANY_OTHER
    assert 0 < steps(connection, name, RUNNING_CLAIMS[name]) <= most


def test_the_piles_are_there(connection):
    counts = [
        connection.execute(f"SELECT count(*) FROM bandog_{table}").fetchone()[0]  # noqa: S608 - names from here
        for table in ("job", "outcome", "ready", "lease")
    ]
    ready = 3 * PILE + 10 + RARE_LANE
    assert counts == [PILE + FAILED + ready + RUNNING, PILE + FAILED, ready, RUNNING]
    # The statements above find something to do.
    found = {"claim": 10, "recover": 51, "settle_job": 1, "read": 1, "stats_running": 1} | dict.fromkeys(
        ("dead_letters", "fail_lane", "fail_lane_default", "jobs", "jobs_queued", "jobs_running", "jobs_settled"), 50
    )
    for name, rows in (found | {"purge": 50, "purge_completed": 50}).items():
        parameters = HOT[name][0] if name in HOT else RUNNING_CLAIMS[name]
        assert len(connection.execute(statement("sqlite", name), parameters).fetchall()) == rows, name
    for name in ("lane_size", "lane_size_default", "stats_due", "stats_queued", "stats_settled", "stats_completed"):
        parameters = HOT[name][0] if name in HOT else FIRST_ROWS[name]
        assert connection.execute(statement("sqlite", name), parameters).fetchone()[0] == 50, name


BESIDE_A_PILE = {
    "fail_lane_default": ("work", 50),
    "lane_size_default": ("work", 50),
    "dead_letters": ("failed", 0, 0, "rare", 50),
    "jobs": (0, "plain", None, 50),
    "jobs_queued": (0, None, "rare", 50),
    "jobs_settled": (0, "plain", None, 50, None),
}


@pytest.mark.parametrize("name", BESIDE_A_PILE)
@pytest.mark.xfail(strict=True, reason="no index serves it: it reads the pile of other lanes or queues on its way")
def test_what_is_rare_is_found_without_reading_the_pile_beside_it(connection, name):
    assert steps(connection, name, BESIDE_A_PILE[name]) <= MOST_STEPS[name]


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
    assert set(folder()) - set(FIRST_ROWS) - set(RUNNING_CLAIMS) - RARE == set(HOT)


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
