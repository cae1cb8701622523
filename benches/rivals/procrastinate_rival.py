"""Procrastinate, in the bench's terms.

The setting is the worker's ``concurrency``; 1, 10 and 50 are tried. It fetches and finishes each job by itself.
Finished jobs are kept, as bandog keeps them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import procrastinate
from serving import PAYLOAD, main

PENDING = "SELECT count(*) AS number FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"


class ProcrastinateRival:
    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.concurrency = options.get("setting", 1)
        self.connector = procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=20)
        self.app = procrastinate.App(connector=self.connector)
        self.execute: Any = None
        self.task = self.app.task(name="bench", queue="bench")(self.bench)
        self.running: asyncio.Task[None] | None = None

    async def bench(self, to: str, n: int) -> None:
        _ = to, n
        await self.execute()

    async def open(self) -> None:
        await self.app.open_async()

    async def prepare(self) -> None:
        await self.app.schema_manager.apply_schema_async()

    async def enqueue(self) -> None:
        await self.task.defer_async(**PAYLOAD)

    async def enqueue_many(self, number: int) -> None:
        await self.task.batch_defer_async(*[PAYLOAD] * number)

    async def start_worker(self, execute: Any) -> None:
        self.execute = execute
        self.running = asyncio.create_task(
            self.app.run_worker_async(queues=["bench"], concurrency=self.concurrency, install_signal_handlers=False)
        )

    async def pending(self) -> int:
        return (await self.connector.execute_query_one_async(PENDING))["number"]


if __name__ == "__main__":
    logging.getLogger("procrastinate").setLevel(logging.ERROR)  # it warns of apps in a main module, once a process
    main(ProcrastinateRival)
