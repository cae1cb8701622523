"""The raw SQL loop that bandog is measured against: Python's sqlite3 on the same tables, without checks and API.

It stores what a job needs to be claimed and settled, in the same shape, with the same settings, one commit a batch.
"""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from typing import TYPE_CHECKING, Any

from bandog.sql import migrations

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class RawLoop:
    """Batched inserts, claims and settlements on one connection."""

    def __init__(self, path: Path, synchronous: str, *, create: bool = True) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, cached_statements=64)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute(f"PRAGMA synchronous = {synchronous}")
        self.connection.execute("PRAGMA cache_size = -16384")
        if create:
            self.connection.executescript(migrations("sqlite")[0])
        self.last = 0

    def close(self) -> None:
        self.connection.close()

    def ingest(self, payloads: Sequence[Any]) -> None:
        """Insert a batch: job and ready rows, with numbers counted here."""
        now = int(time.time() * 1e6)
        numbers = range(self.last + 1, self.last + 1 + len(payloads))
        self.last += len(payloads)
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(
            "INSERT INTO bandog_job (number, job_id, queue, lane, priority, payload, admitted_at) "
            "VALUES (?, ?, 'default', 'default', 0, ?, ?)",
            [
                (number, f"job-{number:020}", json.dumps(payload), now)
                for number, payload in zip(numbers, payloads, strict=True)
            ],
        )
        self.connection.executemany(
            "INSERT INTO bandog_ready "
            "(number, queue, lane, priority, available_at, held, attempts, given_back, recoveries) "
            "VALUES (?, 'default', 'default', 0, ?, 0, 0, 0, 0)",
            [(number, now) for number in numbers],
        )
        self.connection.execute("COMMIT")

    def claim(self, limit: int) -> list[tuple[Any, ...]]:
        """Claim a batch: ready rows become lease rows."""
        execute = self.connection.execute
        now = int(time.time() * 1e6)
        token = uuid.uuid4().hex
        execute("BEGIN IMMEDIATE")
        rows = execute(
            "SELECT ready.number, attempts, job_id, payload "
            "FROM bandog_ready AS ready JOIN bandog_job AS job USING (number) "
            "WHERE ready.queue = 'default' AND ready.priority = 0 AND available_at <= ? "
            "ORDER BY available_at, number LIMIT ?",
            (now, limit),
        ).fetchall()
        self.connection.executemany("DELETE FROM bandog_ready WHERE number = ?", [(row[0],) for row in rows])
        self.connection.executemany(
            "INSERT INTO bandog_lease "
            "(number, lease_token, lease_until, worker, claimed_at, attempts, given_back, recoveries) "
            "VALUES (?, ?, ?, 'raw', ?, ?, 0, 0)",
            [(row[0], token, now + 120_000_000, now, row[1] + 1) for row in rows],
        )
        execute("COMMIT")
        return [(number, token, job_id, json.loads(payload)) for number, _, job_id, payload in rows]

    def settle(self, claims: Sequence[tuple[Any, ...]]) -> None:
        """Settle a batch: lease rows become outcome rows."""
        now = int(time.time() * 1e6)
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(
            "DELETE FROM bandog_lease WHERE number = ? AND lease_token = ? AND lease_until > ?",
            [(claim[0], claim[1], now) for claim in claims],
        )
        self.connection.executemany(
            "INSERT INTO bandog_outcome "
            "(number, kind, settled_at, worker, attempts, given_back, recoveries, last_token) "
            "VALUES (?, 'completed', ?, 'raw', 1, 0, 0, ?)",
            [(claim[0], now, claim[1]) for claim in claims],
        )
        self.connection.execute("COMMIT")
