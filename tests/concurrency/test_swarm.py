"""Many threads and processes on one queue: each job runs once, and no lock error reaches anybody.

`BANDOG_SWARM_JOBS` is the number of jobs of the large test: by default 20,000 on a file, 6,000 on a server.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from processes import PATIENCE, Child

import bandog

if TYPE_CHECKING:
    from fix_target import Target

GIVEN = os.environ.get("BANDOG_SWARM_JOBS")
JOBS = {"sqlite": int(GIVEN or 20_000), "postgres": int(GIVEN or 6_000)}
PROCESSES = 4


def test_four_processes_of_eight_threads_beside_another_program(
    target: Target, tmp_path: Path, start: Callable[..., Child]
) -> None:
    jobs, journal = JOBS[target.kind], tmp_path / "journal"
    target.connect().close()
    neighbour = start("neighbour.py", target.url, 5)
    assert neighbour.hear() == "ready"
    swarms = [
        start("swarm.py", target.url, journal, f"swarm{number}", jobs // PROCESSES) for number in range(PROCESSES)
    ]
    for swarm in swarms:
        assert swarm.hear() == "ready"
    for swarm in swarms:
        swarm.say("go")
    problems = [problem for swarm in swarms for problem in json.loads(swarm.hear(patience=150))]
    assert not problems, "\n".join(problems)
    for swarm in swarms:
        swarm.finish()
    rows = int(neighbour.ask("stop"))
    neighbour.finish()

    ran = Counter(line.split()[0] for line in journal.read_text().splitlines())
    stored = {job for (job,) in target.select("SELECT job_id FROM bandog_job")}
    total = jobs // PROCESSES // 8 * 8 * PROCESSES
    assert len(stored) == total
    assert set(ran) == stored
    assert set(ran.values()) == {1}
    outcomes = target.select("SELECT kind, attempts, recoveries, count(*) FROM bandog_outcome GROUP BY 1, 2, 3")
    assert outcomes == [("completed", 1, 0, total)]
    assert target.select("SELECT count(*), count(DISTINCT number) FROM application") == [(rows, rows)]
    assert rows > 0
    workers = Counter(name.split("-")[0] for (name,) in target.select("SELECT worker FROM bandog_outcome"))
    print(f"{total} jobs, {rows} rows of the other program, {dict(workers)}")
    assert set(workers) == {f"swarm{number}" for number in range(PROCESSES)}
    target.assert_sound()


def in_threads(count: int, body: Callable[[int], None]) -> None:
    """Run it in so many threads at once; an exception of any is the test's."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            barrier.wait(PATIENCE)
            body(number)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def test_sixteen_threads_ingest_through_one_queue(target: Target) -> None:
    with target.connect() as queue:

        def ingest(number: int) -> None:
            for count in range(100):
                assert queue.enqueue(count, job_id=f"{number}-{count}").kind == "admitted"

        in_threads(16, ingest)
    assert target.select("SELECT count(*), count(DISTINCT job_id) FROM bandog_job") == [(1600, 1600)]
    assert target.select("SELECT count(*) FROM bandog_ready") == [(1600,)]
    target.assert_sound()


def test_sixteen_threads_ingest_the_same_jobs(target: Target) -> None:
    kinds: Counter[str] = Counter()
    conflicts: Counter[str] = Counter()
    with target.connect() as queue:

        def ingest(number: int) -> None:
            for count in range(100):
                kinds[f"{count} {queue.enqueue(count, job_id=f'same-{count}').kind}"] += 1
                try:
                    queue.enqueue(number, job_id=f"contested-{count}")
                except bandog.JobConflict as conflict:
                    conflicts[conflict.job_id] += 1

        in_threads(16, ingest)
    for count in range(100):
        assert kinds[f"{count} admitted"] == 1
        assert kinds[f"{count} duplicate"] == 15
        assert conflicts[f"contested-{count}"] == 15
    assert target.select("SELECT count(*) FROM bandog_job") == [(200,)]


def test_one_bad_job_spoils_no_other_threads_call(target: Target) -> None:
    """Requests share transactions; an answer is still each caller's own."""
    with target.connect() as queue:
        queue.enqueue("first", job_id="taken")

        def ingest(number: int) -> None:
            for count in range(50):
                if number % 2:
                    assert queue.enqueue(job_id=f"{number}-{count}").kind == "admitted"
                else:
                    taken = bandog.Job(job_id="taken", payload="second")
                    fresh = bandog.Job(job_id=f"{number}-{count}")
                    kinds = [admission.kind for admission in queue.ingest_many([taken, fresh])]
                    assert kinds == ["conflict", "admitted"]
                    settlements = queue.settle_many([(("taken", "no such token"), bandog.Completed())])
                    assert [settlement.kind for settlement in settlements] == ["stale"]

        in_threads(8, ingest)
        assert queue.read("taken").payload == "first"
    assert target.select("SELECT count(*) FROM bandog_job") == [(401,)]
    target.assert_sound()


def test_threads_share_the_jobs_of_one_queue(target: Target) -> None:
    ran: Counter[str] = Counter()
    lock = threading.Lock()
    with target.connect() as queue:
        queue.ingest_many([bandog.Job(job_id=f"job-{number}") for number in range(800)])

        def execute(job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> None:
            assert not cancel.aborted
            with lock:
                ran[job.job_id] += 1

        def work(_number: int) -> None:
            watchdog = bandog.Watchdog(queue, execute, lease=60)
            while (tick := watchdog.tick()).kind != "idle":
                assert tick.kind == "settled"

        in_threads(8, work)
        assert not queue.has_pending_work()
    assert len(ran) == 800
    assert set(ran.values()) == {1}
    target.assert_sound()


def test_closing_while_others_call(target: Target) -> None:
    """A call that races with the close is carried out or refused; what was acknowledged is there."""
    for round_number in range(10):
        queue = target.connect()
        acknowledged: list[str] = []

        def work(number: int, queue: bandog.Queue = queue, acknowledged: list[str] = acknowledged) -> None:
            if number == 0:
                while len(acknowledged) < 20:
                    pass
                queue.close()
                return
            try:
                for count in range(10_000):
                    admission = queue.enqueue(job_id=f"{round_number}-{number}-{count}")  # noqa: B023 - it ends below
                    acknowledged.append(admission.job_id)
                    queue.read(admission.job_id)
            except bandog.QueueClosed:
                return

        in_threads(6, work)
        stored = {job for (job,) in target.select("SELECT job_id FROM bandog_job")}
        assert stored.issuperset(acknowledged)
    target.assert_sound()
