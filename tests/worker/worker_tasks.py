"""Registries of tasks that a worker and its child processes can import."""

import asyncio
import os

import bandog
from bandog.tasks import current_job, current_token

plain = bandog.Tasks()
mixed = bandog.Tasks()


@plain.task("add", max_attempts=3)
def add(left: int, right: int = 0) -> int:
    return left + right


@plain.task("whoami")
def whoami() -> list[object]:
    return [os.getpid(), current_job().job_id, current_token().aborted]


@plain.task("fails")
def fails() -> None:
    message = "as told"
    raise ValueError(message)


@mixed.task("add-async")
async def add_async(left: int, right: int = 0) -> int:
    await asyncio.sleep(0)
    return left + right


@mixed.task("add-plain")
def add_plain(left: int, right: int = 0) -> int:
    return left + right


@mixed.task("hangs")
async def hangs() -> None:
    await asyncio.sleep(600)
