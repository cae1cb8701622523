"""The sequences that every engine is held to, with ingest and settle on a connection of the caller's."""

import sqlite3
import sys
from functools import partial
from pathlib import Path

import psycopg
import pytest
from through import ThroughConnection

from bandog.stores.statements import FORMAT, QMARK, prepared

sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))

from test_lifecycle_vectors import SEQUENCES, Sequence


@pytest.mark.sync_only("the connections are")
@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: sequence["name"].replace(" ", "-"))
def test_every_step_answers_and_leaves_the_job_as_the_vectors_say(store, sequence):
    if store.kind == "sqlite":
        connect = partial(sqlite3.connect, store.path, timeout=60)
    else:
        connect = partial(psycopg.connect, store.server.url)
    queue = ThroughConnection(store.connect(), connect)
    run = Sequence(store, queue, sequence)
    for number, step in enumerate(sequence["steps"]):
        arguments = {name: value for name, value in step.items() if name not in {"do", "answer", "record"}}
        answer = getattr(run, step["do"])(**arguments)
        expected = step["answer"]
        if isinstance(expected, dict):
            answer = {name: answer[name] for name in expected} if answer else answer
        assert answer == expected, (number, step)
        run.agrees(step["record"])


def test_the_statements_have_no_comment_that_would_be_taken_for_a_parameter():
    for name in ("ingest", "ingest_existing", "put_ready", "put_outcome", "settle", "settle_recorded", "read"):
        for placeholder in (QMARK, FORMAT):
            text, order = prepared("sqlite", name, placeholder)
            assert "--" not in text
            assert text.count(placeholder) == len(order)
    assert prepared("sqlite", "settle_recorded", QMARK)[1] == (0, 1, 0, 1, 0, 1)
