"""Context variables: each job starts from the worker's, and leaves nothing behind (C45)."""

import asyncio
import contextvars
import threading

import pytest
from executors import tenant
from steps import wait_until

from bandog import Completed


@pytest.fixture
def base():
    """The tenant that was set before the worker was started."""
    before = tenant.set("base")
    yield "base"
    tenant.reset(before)


def test_a_job_sees_the_workers_context_and_never_the_one_before(bench, base):
    def wake(_due):
        tenant.set("of the wake callback")

    def on_events(_events):
        tenant.set("of the events callback")

    bench.queue.wake.add(wake)
    # The same thread, loop or child runs them one after the other.
    worker = bench.start(on_events=on_events)
    for number in range(4):
        bench.ingest("leaks", f"job-{number}")
        found, left = bench.settled(f"job-{number}").outcome.result
        assert left == f"of job-{number}"
        # A child process has a context of its own.
        assert found == ("nobody" if bench.kind == "processes" else base)
    assert worker.stats().completed == 4
    bench.queue.wake.remove(wake)
    assert tenant.get() == base


@pytest.mark.kinds("threads", "coroutines")
def test_what_is_set_after_the_start_is_not_seen(bench, base):
    bench.start()
    before = tenant.set("later")
    try:
        bench.ingest("leaks", "a")
        assert bench.settled("a").outcome.result == [base, "of a"]
    finally:
        tenant.reset(before)


@pytest.mark.kinds("async")
def test_on_a_loop_of_the_hosts_the_context_is_that_of_run_async(bench):
    worker = bench.worker()

    async def run():
        tenant.set("of the caller")
        await worker.run_async(burst=True)
        return tenant.get()

    bench.ingest("leaks", "a")
    assert bench.thread.call(run) == "of the caller"
    assert bench.settled("a").outcome.result == ["of the caller", "of a"]


@pytest.mark.kinds("threads", "coroutines", "async")
def test_jobs_side_by_side_have_contexts_of_their_own(bench):
    together = threading.Barrier(3)

    def in_thread(job, _token):
        tenant.set(job.job_id)
        together.wait(30)
        return Completed(tenant.get())

    met = []

    async def in_loop(job, _token):
        tenant.set(job.job_id)
        met.append(asyncio.Event())
        if len(met) == 3:
            for event in met:
                event.set()
        await met[-1].wait()
        return Completed(tenant.get())

    for name in ("a", "b", "c"):
        bench.ingest("no_op", name)
    bench.start(in_loop if bench.is_async else in_thread, at_once=3)
    assert [bench.settled(name).outcome.result for name in ("a", "b", "c")] == ["a", "b", "c"]


@pytest.mark.kinds("coroutines", "async")
def test_a_thread_that_a_coroutine_uses_sees_its_jobs_context(bench):
    async def execute(job, _token):
        tenant.set(job.job_id)
        return Completed(await asyncio.to_thread(tenant.get))

    for name in ("a", "b"):
        bench.ingest("no_op", name)
    bench.start(execute, at_once=2)
    assert [bench.settled(name).outcome.result for name in ("a", "b")] == ["a", "b"]


@pytest.mark.kinds("threads", "coroutines", "async")
def test_callbacks_do_not_see_a_jobs_context(bench):
    """They are called in the context of a thread that is kept for them."""
    seen = {}

    def on_events(events):
        for event in events:
            seen[event.kind] = tenant.get()

    def on_abort(_reason):
        seen["abort"] = tenant.get()

    def body(job, token):
        tenant.set(job.job_id)
        token.add_callback(on_abort)

    def in_thread(job, token):
        body(job, token)
        token.wait(30)

    async def in_loop(job, token):
        body(job, token)
        await asyncio.sleep(30)

    bench.ingest("no_op", "a")
    worker = bench.start(in_loop if bench.is_async else in_thread, on_events=on_events)
    wait_until(lambda: worker.stats().running == 1, "it runs")
    bench.queue.cancel("a", "not wanted")
    wait_until(lambda: len(seen) == 3, f"all are called: {seen}")
    assert not {"a"} & set(seen.values())


@pytest.mark.kinds("threads")
def test_a_context_that_a_job_keeps_is_its_own(bench):
    """A copy per job: one that outlives its job is not entered again."""
    kept = []

    def execute(job, _token):
        kept.append(contextvars.copy_context())
        tenant.set(job.job_id)

    for name in ("a", "b"):
        bench.ingest("no_op", name)
    bench.burst(execute)
    assert [context.get(tenant, "nobody") for context in kept] == ["nobody", "nobody"]
