"""Executors that settle their job in a transaction of their own, and commit it or not."""

import contextlib
import sqlite3

import bandog


def settle_and_commit(job, _cancel):
    with (
        bandog.connect(job.payload["file"]) as queue,
        contextlib.closing(sqlite3.connect(job.payload["file"])) as own,
        own,
    ):
        queue.acknowledge(job, "in the transaction", connection=own)


def settle_and_roll_back(job, _cancel):
    with bandog.connect(job.payload["file"]) as queue, contextlib.closing(sqlite3.connect(job.payload["file"])) as own:
        queue.acknowledge(job, "in the transaction", connection=own)
        own.rollback()


async def settle_and_commit_async(job, cancel):
    settle_and_commit(job, cancel)


async def settle_and_roll_back_async(job, cancel):
    settle_and_roll_back(job, cancel)
