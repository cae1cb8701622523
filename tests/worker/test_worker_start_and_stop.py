"""Starting and stopping inside one process: once, in any order, and with other users of the file."""

import asyncio
import os
import threading
import time
from contextlib import closing

import executors
import pytest
from steps import Background, wait_until

import bandog
from bandog import Completed, ForkedQueue, Job, RuntimeConflict, WorkerStateError

UNTIL_STOPPED = 30.0


def stopped(worker):
    return worker.stats().state == "stopped"


def run_again(bench, worker, how):
    """Start it by one of the three ways."""
    if how == "start":
        worker.start()
    elif how == "run" or bench.thread is None:
        worker.run()
    else:
        bench.thread.call(worker.run_async)


@pytest.mark.parametrize("how", ["start", "run", "run_async"])
def test_a_worker_is_started_once(bench, how):
    worker = bench.start()
    with pytest.raises(WorkerStateError, match="make a new one") as caught:
        run_again(bench, worker, how)
    assert caught.value.state == "running"
    # It is not disturbed,
    bench.ingest("no_op", "a")
    assert bench.settled("a").outcome == Completed()
    # and can be stopped still.
    bench.stop(worker)
    with pytest.raises(WorkerStateError) as caught:
        run_again(bench, worker, how)
    assert caught.value.state == "stopped"


@pytest.mark.parametrize("how", ["start", "run", "run_async"])
def test_a_stop_that_comes_first_is_not_lost(bench, how):
    bench.ingest("no_op", "a")
    worker = bench.worker()
    worker.stop()
    assert worker.stats().state == "stopped"
    run_again(bench, worker, how)
    assert bench.queue.read("a").attempts == 0
    assert not worker.running
    worker.stop()


def test_a_stop_at_the_same_time_as_the_start_is_not_lost(bench):
    for number in range(10):
        worker = bench.worker()
        bench.workers.append(worker)
        together = threading.Barrier(2)

        def stop(worker=worker, together=together, number=number):
            together.wait()
            time.sleep(number * 0.0002)
            worker.stop()

        stopping = Background(stop)
        together.wait()
        run_again(bench, worker, "run" if number % 2 else "run_async")
        stopping.join()
        assert stopped(worker)


def test_stopping_again_and_from_many_threads_is_allowed(bench):
    worker = bench.start()
    bench.ingest("holds", "a")
    bench.await_note("a", "started")
    stops = [Background(worker.stop) for _ in range(4)]
    wait_until(lambda: worker.stats().state == "stopping", "it stops")
    bench.let_go("a")
    for stop in stops:
        stop.join()
    assert stopped(worker)
    worker.stop()
    assert bench.queue.read("a").outcome == Completed("held on")


@pytest.mark.kinds("threads", "coroutines", "async")  # a child process has no worker
def test_an_executor_may_stop_the_worker_that_runs_it(bench):
    def plain(_job, _token):
        worker.stop(wait=False)
        return Completed("stopped it")

    async def in_loop(job, token):
        return plain(job, token)

    for name in ("a", "b"):
        bench.queue.ingest(Job(job_id=name, priority=9 if name == "a" else 0))
    worker = bench.worker(in_loop if bench.is_async else plain)
    bench.begin(worker)
    wait_until(lambda: stopped(worker), "it stops")
    assert bench.queue.read("a").outcome == Completed("stopped it")
    assert bench.queue.read("b").attempts <= 1


def test_what_it_says_it_does(bench):
    worker = bench.worker()
    assert (worker.running, worker.stats().state) == (False, "new")
    bench.begin(worker)
    assert (worker.running, worker.stats().state) == (True, "running")
    assert repr(worker) == "<bandog.Worker 'bench' running>"
    bench.stop(worker)
    assert (worker.running, worker.stats().state) == (False, "stopped")


@pytest.mark.kinds("threads", "coroutines", "processes")
def test_it_is_a_context_manager(bench):
    bench.ingest("no_op", "a")
    with bench.worker() as worker:
        assert worker.running
        bench.settled("a")
    assert stopped(worker)
    worker = bench.worker(grace=0.0)
    with pytest.raises(ZeroDivisionError), worker:
        raise ZeroDivisionError
    assert stopped(worker)


@pytest.mark.kinds("threads", "coroutines", "processes")
def test_several_workers_share_a_queue(bench):
    bench.queue.ingest_many([bench.job("noted", f"job-{number}") for number in range(60)])
    workers = [bench.start(worker=f"w-{number}") for number in range(3)]
    for number in range(60):
        assert bench.settled(f"job-{number}").outcome == Completed()
    assert sorted(bench.noted()) == sorted(f"job-{number} 1 ran" for number in range(60))
    wait_until(lambda: sum(worker.stats().completed for worker in workers) == 60, "all are counted")


# The loop


@pytest.mark.kinds("async")
def test_cancelling_run_async_stops_the_worker_and_goes_on(bench):
    bench.ingest("holds", "a")
    worker = bench.worker(grace=0.0)

    async def run():
        task = asyncio.ensure_future(worker.run_async())
        await asyncio.to_thread(bench.await_note, "a", "started")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    bench.thread.call(run)
    assert stopped(worker)
    # Told to stop, and handed back uncharged.
    record = bench.queue.read("a")
    assert (record.state, record.charged) == ("queued", 0)


@pytest.mark.kinds("async")
def test_the_loop_stays_free_while_the_worker_stops(bench):
    bench.ingest("holds", "a")
    worker = bench.worker()

    async def run():
        task = asyncio.ensure_future(worker.run_async())
        await asyncio.to_thread(bench.await_note, "a", "started")
        worker.stop(wait=False)
        await asyncio.to_thread(wait_until, lambda: worker.stats().state == "stopping", "it stops")
        turns = 0
        for _ in range(20):
            await asyncio.sleep(0.001)
            turns += 1
        bench.let_go("a")
        await task
        return turns

    assert bench.thread.call(run) == 20
    assert bench.queue.read("a").outcome == Completed("held on")


@pytest.mark.kinds("async")
def test_a_plain_function_runs_in_threads_beside_the_loop(bench):
    seen = set()

    def plain(_job, _token):
        seen.add(threading.current_thread().name)

    bench.queue.ingest_many([Job(job_id=f"job-{number}") for number in range(5)])
    bench.burst(plain, at_once=2)
    assert all(name.startswith("bandog-worker-") for name in seen)
    assert bench.queue.read("job-4").outcome == Completed()


# Others on the file


@pytest.mark.parametrize("how", ["start", "run", "run_async"])
def test_a_worker_does_not_run_beside_a_probe_runtime(bench, how):
    with closing(bandog.connect(bench.path)) as other:
        probe = bandog.Watchdog(other, executors.act, is_alive=lambda _record: True)
        bench.ingest("no_op", "a")
        worker = bench.worker()
        with pytest.raises(RuntimeConflict):
            run_again(bench, worker, how)
        assert bench.queue.read("a").attempts == 0
        assert not worker.running
        # It was not started: it may be, once the other is gone.
        probe.close()
        bench.begin(worker)
        assert bench.settled("a").outcome == Completed()
        bench.stop(worker)


def test_a_probe_runtime_does_not_start_beside_a_worker(bench):
    worker = bench.start()
    with closing(bandog.connect(bench.path)) as other:
        with pytest.raises(RuntimeConflict):
            bandog.Watchdog(other, executors.act, is_alive=lambda _record: True)
        bench.stop(worker)
        bandog.Watchdog(other, executors.act, is_alive=lambda _record: True).close()


def test_a_watchdog_with_leases_runs_beside_a_worker(bench):
    bench.start(queues="default")
    bench.ingest("no_op", "a")
    bench.ingest("no_op", "b", budget={"queue": "other"})
    with closing(bandog.connect(bench.path)) as other:
        dog = bandog.Watchdog(other, executors.act, queues="other")
        assert dog.tick().job_id == "b"
        dog.close()
    assert bench.settled("a").outcome == Completed()


# A queue that goes away


def test_a_queue_closed_under_a_running_worker_ends_it(bench):
    bench.ingest("holds", "a")
    worker = bench.start(poll=0.1)
    bench.await_note("a", "started")
    bench.queue.close()
    bench.let_go("a")
    wait_until(lambda: stopped(worker), "it ends by itself")
    worker.stop()
    bench.queue = None
    with closing(bandog.connect(bench.path)) as other:
        # Its report came too late, or just in time.
        assert other.read("a").state in {"running", "settled"}


@pytest.mark.kinds("threads", "coroutines", "processes")
def test_run_returns_when_its_queue_is_closed(bench):
    worker = bench.worker(poll=0.1)
    running = Background(worker.run)
    wait_until(lambda: worker.running, "it runs")
    bench.queue.close()
    running.join()
    assert stopped(worker)
    bench.queue = None


def test_a_queue_closed_before_the_start_is_a_typed_error(bench):
    worker = bench.worker()
    bench.queue.close()
    with pytest.raises(bandog.QueueClosed):
        worker.start()
    bench.queue = None


@pytest.mark.kinds("threads", "coroutines")
@pytest.mark.parametrize("what", ["stats", "stop", "start", "run"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_in_a_forked_child_it_is_a_typed_error(bench, what):
    worker = bench.start() if what in {"stats", "stop"} else bench.worker()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        word = "no error"
        try:
            getattr(worker, what)()
        except ForkedQueue:
            word = "ForkedQueue"
        except BaseException as error:  # noqa: BLE001 - told to the parent
            word = repr(error)
        os.write(write, word.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert pipe.read() == "ForkedQueue"
    os.waitpid(child, 0)
    if what in {"stats", "stop"}:
        bench.ingest("no_op", "a")
        assert bench.settled("a").outcome == Completed()
