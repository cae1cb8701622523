"""PgQueuer, in the bench's terms.

Its completions are always buffered, up to a batch or 0.1 s, and its event loop is uvloop, as its command line has it.
The setting is ``batch_size``, the number of jobs per dequeue; 10, 100 and 1000 are tried. It runs on a pool of
connections: on a single one, dequeuing and recording wait for each other.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job  # noqa: TC002 - its decorator reads the annotation
from pgqueuer.queries import Queries
from serving import PAYLOAD, main

ENCODED = json.dumps(PAYLOAD).encode()


class PgQueuerRival:
    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.url = url
        self.batch = options.get("setting", 10)
        self.running: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self.pool = await asyncpg.create_pool(self.url, min_size=4, max_size=20)
        self.driver = AsyncpgPoolDriver(self.pool)
        self.queries = Queries(self.driver)

    async def prepare(self) -> None:
        await self.queries.install()

    async def enqueue(self) -> None:
        await self.queries.enqueue("bench", ENCODED)

    async def enqueue_many(self, number: int) -> None:
        await self.queries.enqueue(["bench"] * number, [ENCODED] * number, [0] * number)

    async def start_worker(self, execute: Any) -> None:
        worker = PgQueuer(self.driver)

        @worker.entrypoint("bench")
        async def bench(job: Job) -> None:
            json.loads(job.payload or b"")
            await execute()

        self.running = asyncio.create_task(worker.run(batch_size=self.batch))

    async def pending(self) -> int:
        return await self.pool.fetchval("SELECT count(*) FROM pgqueuer")


if __name__ == "__main__":
    main(PgQueuerRival, uvloop.run)
