"""The file is deleted or replaced while it is open: the next write says so, and nothing is written blindly."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from processes import PATIENCE, assert_sound, eventually, select

import bandog


def fingerprints(folder: Path) -> dict[str, str]:
    """Every file of a folder, by content. (The shared-memory file is an index that readers may rebuild.)"""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.endswith("-shm"))
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def assert_refused(queue: bandog.Queue, claim: bandog.ClaimedJob) -> None:
    """Every way of writing is refused, with the same words."""
    writes: list[Callable[[], object]] = [
        lambda: queue.enqueue(job_id="too-late"),
        lambda: queue.ingest_many([bandog.Job(), bandog.Job()]),
        queue.claim,
        lambda: queue.renew(claim),
        lambda: queue.acknowledge(claim),
        queue.recover,
    ]
    for write in writes:
        with pytest.raises(bandog.StoreFailed, match="deleted or replaced"):
            write()


def test_a_deleted_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    with bandog.connect(path) as queue:
        queue.enqueue(job_id="early")
        (claim,) = queue.claim()
        path.unlink()
        before = fingerprints(tmp_path)
        assert_refused(queue, claim)
        assert fingerprints(tmp_path) == before
        assert not path.exists(), "it must not come back as an empty one"


def test_a_replaced_file_is_noticed_and_left_alone(tmp_path: Path) -> None:
    path, other = tmp_path / "jobs.sqlite", tmp_path / "elsewhere" / "other.sqlite"
    other.parent.mkdir()
    with bandog.connect(other) as queue:
        queue.enqueue(job_id="of-the-other")
    with bandog.connect(path) as queue:
        queue.enqueue(job_id="early")
        (claim,) = queue.claim()
        path.rename(tmp_path / "elsewhere" / "kept.sqlite")
        other.rename(path)
        before = fingerprints(tmp_path)
        assert_refused(queue, claim)
        assert fingerprints(tmp_path) == before


def test_a_file_that_is_put_back_serves_again(tmp_path: Path) -> None:
    path, aside = tmp_path / "jobs.sqlite", tmp_path / "aside.sqlite"
    with bandog.connect(path) as queue:
        queue.enqueue(job_id="early")
        (claim,) = queue.claim()
        path.rename(aside)
        assert_refused(queue, claim)
        aside.rename(path)
        assert queue.acknowledge(claim).kind == "completed"
        assert queue.enqueue(job_id="late").kind == "admitted"
    assert_sound(path)


def test_a_restored_backup_is_noticed(tmp_path: Path) -> None:
    """The usual way to do it by mistake: copy a backup over the file's name while a worker runs."""
    path, backup = tmp_path / "jobs.sqlite", tmp_path / "backup.sqlite"
    with bandog.connect(path) as queue:
        queue.enqueue(job_id="in-the-backup")
    backup.write_bytes(path.read_bytes())
    with bandog.connect(path) as queue:
        queue.enqueue(job_id="after-the-backup")
        (claim,) = queue.claim()
        backup.replace(path)
        before = fingerprints(tmp_path)
        assert_refused(queue, claim)
        assert fingerprints(tmp_path) == before


def test_a_running_job_is_told_that_its_claim_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    reasons: list[str | None] = []
    started = threading.Event()
    errors: list[BaseException] = []

    def execute(_job: bandog.ClaimedJob, cancel: bandog.CancellationToken) -> None:
        started.set()
        eventually(lambda: cancel.aborted, "renewals can no longer land")
        reasons.append(cancel.reason)

    with bandog.connect(path) as queue:
        queue.enqueue(job_id="running")

        def tick() -> None:
            try:
                bandog.Watchdog(queue, execute, lease=0.5).tick()
            except bandog.StoreFailed as error:
                errors.append(error)

        thread = threading.Thread(target=tick, daemon=True)
        thread.start()
        assert started.wait(PATIENCE)
        os.unlink(path)  # noqa: PTH108 - as `rm` would
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert reasons == ["lease_lost"]
    assert len(errors) == 1


def test_reopening_after_a_replacement_uses_the_new_file_alone(tmp_path: Path) -> None:
    """The remedy that the message names. The log of the old file must not be replayed into the new one."""
    path, backup = tmp_path / "jobs.sqlite", tmp_path / "backup.sqlite"
    with bandog.connect(backup) as queue:
        queue.ingest_many([bandog.Job(job_id=f"new-{number}", payload="x" * 500) for number in range(300)])
    with bandog.connect(path) as queue:
        queue.ingest_many([bandog.Job(job_id=f"old-{number}") for number in range(20)])
        backup.replace(path)
        with pytest.raises(bandog.StoreFailed, match="close the queue and open it again"):
            queue.enqueue(job_id="too-late")
    with bandog.connect(path) as queue:
        queue.enqueue(job_id="after")
    stored = {job for (job,) in select(path, "SELECT job_id FROM bandog_job")}
    assert stored == {"after", *(f"new-{number}" for number in range(300))}
    assert_sound(path)


@pytest.mark.parametrize("read_before", [False, True])
def test_reading_makes_no_file_where_it_was_deleted(tmp_path: Path, read_before: bool) -> None:
    """A connection for reading is opened when it is needed, by name: whose file is that by then?"""
    path = tmp_path / "jobs.sqlite"
    with bandog.connect(path) as queue:
        queue.enqueue(job_id="early")
        if read_before:
            queue.read("early")
        path.unlink()
        # What it answers is not promised; an error must be the one that says what has happened.
        try:
            assert queue.read("early").state == "queued"
        except bandog.StoreFailed as error:
            assert "deleted or replaced" in str(error)  # noqa: PT017 - only if it is raised
        assert not path.exists()
    assert not path.exists()


@pytest.mark.parametrize("read_before", [False, True])
def test_reading_leaves_a_replacement_alone(tmp_path: Path, read_before: bool) -> None:
    """A reader of the new file finds the old log beside it, and writes it there when it closes."""
    path, backup = tmp_path / "jobs.sqlite", tmp_path / "backup.sqlite"
    with bandog.connect(backup) as queue:
        queue.ingest_many([bandog.Job(job_id=f"new-{number}", payload="x" * 500) for number in range(300)])
    with bandog.connect(path) as queue:
        queue.enqueue(job_id="early")
        if read_before:
            queue.read("early")
        backup.replace(path)
        before = path.read_bytes()
        for job in ("early", "new-1"):
            with suppress(bandog.StoreFailed, bandog.JobNotFound):
                queue.read(job)
        assert path.read_bytes() == before
    assert path.read_bytes() == before
