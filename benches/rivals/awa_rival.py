"""Awa, in the bench's terms, on its newer storage ("queue storage"), which its own documentation measures.

The setting is [workers, claimers]: how many jobs run at once, and how many loops claim for them. 100 and 1000 workers
are tried, and 1 and 4 claimers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import awa
from serving import PAYLOAD, main


@dataclass
class Mail:
    to: str
    n: int


class AwaRival:
    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.url = url
        self.workers, self.claimers = options.get("setting", [100, 1])

    async def open(self) -> None:
        self.client = awa.AsyncClient(self.url, max_connections=20)

    async def prepare(self) -> None:
        await self.client.migrate()
        await self.client.install_queue_storage(schema="awa")

    async def enqueue(self) -> None:
        await self.client.insert(Mail(**PAYLOAD), queue="bench")

    async def enqueue_many(self, number: int) -> None:
        await self.client.enqueue_many_copy([Mail(**PAYLOAD)] * number, queue="bench")

    async def start_worker(self, execute: Any) -> None:
        @self.client.task(Mail, queue="bench")
        async def bench(job: awa.Job[Mail]) -> None:
            _ = job.args
            await execute()

        queue = {"name": "bench", "max_workers": self.workers, "claimers": self.claimers, "claim_batch_size": 512}
        await self.client.start([queue], poll_interval_ms=50)

    async def pending(self) -> int:
        return sum(queue.available + queue.running for queue in await self.client.queue_stats())


if __name__ == "__main__":
    main(AwaRival)
