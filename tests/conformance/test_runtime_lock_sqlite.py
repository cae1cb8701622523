"""Who runs the jobs of a file: any number of runtimes with leases, or one with a liveness probe. SQLite only.

Between processes it is ``tests/crash/test_probe_runtime.py``.
"""

import gc
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest
from steps import LEASE, claim_one, claimed_ids, executor_of

import bandog
from bandog import Completed, InvalidJob, Job, RuntimeConflict, Tick, Watchdog


@pytest.fixture
def queue(sqlite_store):
    return sqlite_store.connect()


def leasing(queue):
    return Watchdog(queue, executor_of(None), lease=LEASE)


def probing(queue):
    return Watchdog(queue, executor_of(None), is_alive=lambda _record: True)


PAIRS = [(probing, probing), (probing, leasing), (leasing, probing)]


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("handles", ["one handle", "two handles"])
def test_a_probe_is_the_only_runtime_of_its_file(sqlite_store, queue, first, second, handles):
    other = queue if handles == "one handle" else sqlite_store.connect()
    queue.enqueue(job_id="a")
    with first(queue) as dog:
        for _ in range(2):
            with pytest.raises(RuntimeConflict) as caught:
                second(other)
        assert caught.value.target == str(sqlite_store.path)
        assert str(sqlite_store.path) in str(caught.value)
        # The one that is there works on.
        assert dog.tick().job_id == "a"
    with second(other) as dog:
        assert dog.tick() == Tick(kind="idle")


def test_runtimes_with_leases_share_a_file(sqlite_store, queue):
    queue.ingest_many([Job(job_id="a"), Job(job_id="b"), Job(job_id="c")])
    with leasing(queue) as first, leasing(queue) as second, leasing(sqlite_store.connect()) as third:
        assert [dog.tick().job_id for dog in (first, second, third)] == ["a", "b", "c"]
        first.close()
        with pytest.raises(RuntimeConflict):
            probing(queue)
        second.close()
        with pytest.raises(RuntimeConflict):
            probing(queue)
    probing(queue).close()


def test_closing_twice_gives_no_lock_of_another_away(queue):
    first = leasing(queue)
    second = leasing(queue)
    first.close()
    first.close()
    with pytest.raises(RuntimeConflict):
        probing(queue)
    second.close()
    with probing(queue):
        first.close()
        with pytest.raises(RuntimeConflict):
            leasing(queue)


def test_a_runtime_that_was_dropped_holds_no_lock(queue):
    probing(queue)
    gc.collect()
    probing(queue).close()


def test_the_queue_is_open_when_its_runtime_is_closed(queue):
    with probing(queue):
        pass
    assert queue.enqueue(job_id="a").kind == "admitted"
    assert claimed_ids(queue) == ["a"]


def test_admitting_claiming_and_managing_need_no_lock(sqlite_store, queue):
    other = sqlite_store.connect()
    with probing(queue):
        other.ingest_many([Job(job_id="a"), Job(job_id="b")])
        other.acknowledge(claim_one(other, "a"))
        other.cancel("b")
        assert other.stats().outcomes["cancelled"] == 1


def test_files_are_independent(tmp_path, queue):
    with probing(queue), bandog.connect(tmp_path / "other.sqlite") as other, probing(other):
        pass


@pytest.mark.parametrize("spelling", ["symbolic link", "relative", "dotted", "url"])
def test_a_file_is_the_same_by_every_name(sqlite_store, tmp_path, monkeypatch, queue, spelling):
    path = sqlite_store.path
    if spelling == "symbolic link":
        name = tmp_path / "link.sqlite"
        name.symlink_to(path)
    elif spelling == "relative":
        monkeypatch.chdir(path.parent)
        name = path.name
    elif spelling == "dotted":
        (tmp_path / "folder").mkdir()
        name = tmp_path / "folder" / ".." / path.name
    else:
        name = f"sqlite:///{path}"
    with bandog.connect(name, clock=sqlite_store.clock) as same:
        same.enqueue(job_id="a")
        assert queue.read("a").state == "queued"
        with probing(queue):
            for make in (probing, leasing):
                with pytest.raises(RuntimeConflict):
                    make(same)
        with probing(same), pytest.raises(RuntimeConflict):
            leasing(queue)


def test_a_file_in_a_folder_that_was_reached_through_a_link_is_the_same_too(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    with (
        bandog.connect(tmp_path / "real" / "jobs.sqlite") as queue,
        bandog.connect(tmp_path / "alias" / "jobs.sqlite") as same,
        probing(queue),
        pytest.raises(RuntimeConflict),
    ):
        probing(same)


def test_the_lock_is_a_file_beside_the_database_and_holds_nothing(sqlite_store, queue):
    path = sqlite_store.path
    with probing(queue):
        beside = {each.name for each in path.parent.iterdir() if each.name.startswith(path.name)}
        (lock,) = beside - {path.name, f"{path.name}-wal", f"{path.name}-shm"}
        assert (path.parent / lock).stat().st_size == 0
    # Somebody who removes it while nobody runs does no harm.
    (path.parent / lock).unlink()
    with probing(queue), pytest.raises(RuntimeConflict):
        leasing(queue)


def test_a_reader_of_the_database_does_not_take_the_lock_away(sqlite_store, queue):
    """Closing any descriptor of a file drops the process's POSIX locks on it: so this lock is on a file of its own."""
    with probing(queue):
        with closing(sqlite3.connect(sqlite_store.path)) as reader:
            reader.execute("SELECT count(*) FROM bandog_job").fetchall()
        bandog.connect(sqlite_store.path).close()
        with pytest.raises(RuntimeConflict):
            leasing(sqlite_store.connect())


def test_a_lease_beside_a_probe_is_refused(queue):
    with pytest.raises(InvalidJob) as caught:
        Watchdog(queue, executor_of(None), is_alive=lambda _record: True, lease=60)
    assert caught.value.field == "lease"
    # And no lock was left behind.
    probing(queue).close()


@pytest.mark.parametrize("lease", [0.1, "60", True, float("nan")], ids=repr)
def test_a_lease_that_is_not_allowed_is_named_and_leaves_no_lock_behind(queue, lease):
    with pytest.raises(InvalidJob) as caught:
        Watchdog(queue, executor_of(None), lease=lease)
    assert caught.value.field == "lease"
    probing(queue).close()


# What a runtime with leases makes of the claims that a probe stood for


def abandon(queue, *job_ids):
    """Running claims of a probing runtime that is gone."""
    queue.ingest_many(Job(job_id=job_id) for job_id in job_ids)
    claims, _, _, _ = queue.engine.claim(worker="gone", queues=None, limit=len(job_ids), lease=None, keep=False).wait()
    return claims


def test_a_runtime_with_leases_gives_the_claims_of_a_probe_a_full_lease(sqlite_store, queue):
    claims = abandon(queue, "a", "b")
    sqlite_store.advance(1_000_000)
    with leasing(queue) as dog:
        until = sqlite_store.now() + timedelta(seconds=LEASE)
        assert [queue.read(job_id).lease_until for job_id in "ab"] == [until, until]
        sqlite_store.advance(LEASE - 0.001)
        assert dog.tick() == Tick(kind="idle")
        # Whoever holds one may settle it until then.
        assert queue.acknowledge(claims[1], "still here").kind == "completed"
        sqlite_store.advance(0.001)
        assert dog.tick() == Tick(kind="settled", job_id="a", outcome=Completed(), recovered=("a",))
    assert queue.read("a").attempts == 2


def test_a_second_runtime_with_leases_does_not_prolong_them(sqlite_store, queue):
    abandon(queue, "a")
    with leasing(queue):
        until = queue.read("a").lease_until
        sqlite_store.advance(LEASE / 2)
        with leasing(sqlite_store.connect()):
            assert queue.read("a").lease_until == until


def test_a_runtime_with_leases_changes_no_lease_that_is_there(sqlite_store, queue):
    queue.ingest_many([Job(job_id="a"), Job(job_id="b")])
    claim_one(queue, "a", lease=10 * LEASE)
    claim_one(queue, "b", lease=LEASE)
    sqlite_store.advance(LEASE - 1)
    before = [queue.read(job_id).lease_until for job_id in "ab"]
    with leasing(queue):
        assert [queue.read(job_id).lease_until for job_id in "ab"] == before


def test_a_refused_runtime_gives_no_lease(sqlite_store, queue):
    with probing(queue):
        abandon(queue, "a")
        with pytest.raises(RuntimeConflict):
            leasing(sqlite_store.connect())
        assert queue.read("a").lease_until is None


def test_a_user_of_the_pull_api_alone_recovers_the_claims_of_a_probe_that_is_gone(sqlite_store, queue):
    """Design, liveness: a user of the pull API alone recovers too."""
    with probing(queue):
        abandon(queue, "a")
    queue = sqlite_store.reopen()
    found = []
    for _ in range(3):
        sqlite_store.advance(LEASE + 1)
        found += claimed_ids(queue)
    assert found == ["a"]
