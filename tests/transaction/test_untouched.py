"""Nothing on the caller's connection is begun, ended or set, and no setting of it gets in the way."""

import sqlite3
import sys
from contextlib import closing

import django.conf
import pytest
from callers import KINDS
from django.core.handlers.base import BaseHandler
from django.db import connections
from django.db.transaction import TransactionManagementError, atomic, set_rollback

import bandog
from bandog import Completed, Snooze

MODES = ["sqlite3", "sqlite3-immediate", "sqlite3-exclusive", "sqlite3-by-hand"]
if sys.version_info >= (3, 12):
    MODES += ["sqlite3-autocommit-off", "sqlite3-autocommit-on"]

CONTROL = ("BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE", "ATTACH", "DETACH")


def use_everything(queue, connection):
    queue.ingest_many([bandog.Job(job_id=f"job-{number}") for number in range(3)], connection=connection)
    queue.enqueue(job_id="job-0", connection=connection)
    queue.settle_many([(claim, Completed()) for claim in queue.claims], connection=connection)
    queue.settle(queue.snoozed, Snooze(9), connection=connection)


class Busy:
    """A queue with claims."""

    def __init__(self, queue):
        self._queue = queue
        for _ in range(3):
            queue.enqueue(max_attempts=2)
        *self.claims, self.snoozed = queue.claim(limit=3)

    def __getattr__(self, name):
        return getattr(self._queue, name)


@pytest.mark.parametrize("mode", MODES)
def test_no_statement_controls_the_transaction(path, mode):
    caller = KINDS[mode](path)
    try:
        busy = Busy(caller.queue)
        caller.write("first")  # the driver's own BEGIN comes with it
        seen = []
        caller.connection.set_trace_callback(seen.append)
        use_everything(busy, caller.connection)
        caller.connection.set_trace_callback(None)
        assert len(seen) > 20
        assert [text for text in seen if text.lstrip().upper().startswith(CONTROL)] == []
        pragmas = {text for text in seen if text.lstrip().upper().startswith("PRAGMA")}
        assert pragmas == {"PRAGMA database_list"}
        caller.commit()
    finally:
        caller.stop()


def settings(connection):
    names = ["isolation_level", "row_factory", "text_factory", "total_changes"]
    names += ["autocommit"] * hasattr(connection, "autocommit")
    pragmas = ["synchronous", "foreign_keys", "busy_timeout", "journal_mode", "cache_size", "temp_store"]
    values = [getattr(connection, name) for name in names if name != "total_changes"]
    return values + [connection.execute(f"PRAGMA {name}").fetchall() for name in pragmas]


@pytest.mark.parametrize("mode", MODES)
def test_no_setting_is_changed(path, mode):
    caller = KINDS[mode](path)
    try:
        busy = Busy(caller.queue)
        caller.connection.row_factory = sqlite3.Row
        caller.write("first")
        before = settings(caller.connection)
        use_everything(busy, caller.connection)
        assert settings(caller.connection) == before
        caller.roll_back()
    finally:
        caller.stop()


@pytest.mark.parametrize(
    "row_factory", [sqlite3.Row, lambda _cursor, row: {"row": row}, None], ids=["Row", "dict", "none"]
)
@pytest.mark.parametrize("text_factory", [str, bytes, bytearray], ids=["str", "bytes", "bytearray"])
def test_rows_and_text_may_come_in_any_form(path, row_factory, text_factory):
    with bandog.connect(path) as queue, closing(sqlite3.connect(path)) as connection:
        connection.row_factory = row_factory
        connection.text_factory = text_factory
        queue.set_lane_limit("q", "l", 5)
        queue.enqueue({"ü": 1}, job_id="jöb", queue="q", lane="l", max_attempts=3)
        (claim,) = queue.claim(worker="wörker")
        queue.cancel("jöb", "reasön")
        with connection:
            admission = queue.enqueue(
                {"ü": 1}, job_id="jöb", queue="q", lane="l", max_attempts=3, connection=connection
            )
            assert (admission.kind, admission.job.payload, admission.job.worker) == ("duplicate", {"ü": 1}, "wörker")
            assert admission.job.cancel_reason == "reasön"
            assert queue.settle(claim, Snooze(9), connection=connection).kind == "cancelled"
            assert queue.settle(claim, Snooze(9), connection=connection).kind == "cancelled"
        assert queue.read("jöb").outcome == bandog.Cancelled("reasön")
        assert queue.read("jöb").worker == "wörker"


def test_statements_go_through_django(path):
    """So that its log, its wrappers and its checks see them."""
    caller = KINDS["django"](path)
    try:
        seen = []

        def wrapper(execute, sql, params, many, context):
            seen.append(sql)
            return execute(sql, params, many, context)

        with caller.connection.execute_wrapper(wrapper):
            caller.queue.enqueue(job_id="a", connection=caller.connection)
        assert any("INTO bandog_job" in text for text in seen)
        set_rollback(True)
        with pytest.raises(TransactionManagementError):
            caller.queue.enqueue(job_id="b", connection=caller.connection)
    finally:
        caller.stop()


def test_a_request_of_django_is_one_transaction(path):
    caller = KINDS["django"](path)
    caller.roll_back()
    connection = connections["default"]
    connection.settings_dict["ATOMIC_REQUESTS"] = True
    try:

        def view(request):
            caller.write(request)
            caller.queue.enqueue(job_id=request, connection=connection)
            if request == "bad":
                raise ValueError(request)

        handle = BaseHandler().make_view_atomic(view)
        handle("good")
        with pytest.raises(ValueError, match="bad"):
            handle("bad")
        assert caller.jobs() == caller.words() == ["good"]
    finally:
        connection.settings_dict["ATOMIC_REQUESTS"] = False
        caller.stop()


def test_django_without_autocommit_is_in_a_transaction(path):
    caller = KINDS["django"](path)
    caller.roll_back()
    try:
        caller.connection.set_autocommit(False)
        caller.queue.enqueue(job_id="a", connection=caller.connection)
        caller.connection.rollback()
        assert caller.jobs() == []
        caller.queue.enqueue(job_id="a", connection=caller.connection)
        caller.connection.commit()
        caller.connection.set_autocommit(True)
        assert caller.jobs() == ["a"]
        with atomic():
            caller.queue.enqueue(job_id="b", connection=caller.connection)
        assert caller.jobs() == ["a", "b"]
    finally:
        caller.stop()


def test_django_is_set_up():
    assert django.conf.settings.configured
