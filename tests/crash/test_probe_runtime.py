"""One runtime with a liveness probe per file, whatever process it is in; its lock dies with it, and with nothing else.

Within one process it is ``tests/conformance/test_runtime_lock_sqlite.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from processes import Child, assert_sound, eventually

import bandog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.sqlite"
    with bandog.connect(path) as queue:
        queue.enqueue(job_id="a", max_attempts=5)
    return path


@pytest.fixture
def prober(path: Path, start: Callable[..., Child]) -> Callable[[], Child]:
    """Start another process."""

    def begin() -> Child:
        child = start("prober.py", path)
        assert child.hear() == "ready"
        return child

    return begin


@pytest.fixture(autouse=True)
def no_orphans(path: Path) -> Iterator[None]:
    """What a killed process has forked ends by itself when this file is there."""
    yield
    path.with_suffix(".stop").touch()


def test_after_a_kill_the_next_one_starts_at_once_and_recovers_at_once(path: Path, prober: Callable[[], Child]) -> None:
    first = prober()
    assert first.ask("probe") == "made"
    assert first.ask("run") == "a"
    successor = prober()
    assert successor.ask("probe") == "refused"
    first.kill()
    assert successor.ask("probe") == "made"
    assert successor.ask("tick") == "settled a a"
    with bandog.connect(path) as queue:
        record = queue.read("a")
        assert (record.outcome, record.attempts, record.recoveries) == (bandog.Completed(), 2, 1)
    assert_sound(path)


def test_a_second_one_is_refused_while_it_lives(path: Path, prober: Callable[[], Child]) -> None:
    first, second = prober(), prober()
    assert first.ask("probe") == "made"
    for _ in range(2):
        assert second.ask("probe") == "refused"
    with bandog.connect(path) as queue:
        with pytest.raises(bandog.RuntimeConflict) as caught:
            bandog.Watchdog(queue, lambda _job, _token: None, is_alive=lambda _record: True)
        assert caught.value.target == str(path)
        # The pull API needs no lock, and its leases are its own.
        (claim,) = queue.claim()
        assert queue.acknowledge(claim).kind == "completed"
    assert first.ask("close") == "closed"
    assert second.ask("probe") == "made"
    assert first.ask("probe") == "refused"


def test_a_runtime_with_leases_beside_it_is_refused_and_the_other_way_round(prober: Callable[[], Child]) -> None:
    first, second, third = prober(), prober(), prober()
    assert first.ask("probe") == "made"
    assert second.ask("lease 5") == "refused"
    first.kill()
    assert second.ask("lease 5") == "made"
    assert third.ask("lease 5") == "made", "any number of them"
    first = prober()
    assert first.ask("probe") == "refused"
    second.kill()
    assert first.ask("probe") == "refused", "one of them is still there"
    third.kill()
    assert first.ask("probe") == "made"


def test_a_runtime_with_leases_gives_the_claims_of_a_dead_one_a_full_lease(
    path: Path, prober: Callable[[], Child]
) -> None:
    lease = 3.0
    first = prober()
    assert first.ask("probe") == "made"
    assert first.ask("run") == "a"
    with bandog.connect(path) as queue:
        assert queue.read("a").lease_until is None
        first.kill()
        assert queue.recover() == ((), ())
        successor = prober()
        before = datetime.now(UTC)
        assert successor.ask(f"lease {lease}") == "made"
        until = queue.read("a").lease_until
        assert before + timedelta(seconds=lease) <= until <= datetime.now(UTC) + timedelta(seconds=lease)
        said = eventually(lambda: (answer := successor.ask("tick")).startswith("settled") and answer, "it is recovered")
        assert said == "settled a a"
        assert datetime.now(UTC) >= until
    assert_sound(path)


def test_a_forked_child_that_outlives_it_does_not_keep_the_lock(prober: Callable[[], Child]) -> None:
    first = prober()
    assert first.ask("probe") == "made"
    assert first.ask("run") == "a"
    assert first.ask("forked nothing") == "-"
    successor = prober()
    assert successor.ask("probe") == "refused"
    first.kill()
    assert successor.ask("probe") == "made"
    assert successor.ask("tick") == "settled a a"


def test_a_forked_child_that_closes_its_copy_leaves_the_lock_to_its_parent(prober: Callable[[], Child]) -> None:
    first = prober()
    assert first.ask("probe") == "made"
    assert first.ask("forked close") == "closed"
    second = prober()
    assert second.ask("probe") == "refused"
    assert second.ask("lease 5") == "refused"
    assert first.ask("tick") == "settled a "


def test_a_forked_child_is_another_process(prober: Callable[[], Child]) -> None:
    first = prober()
    assert first.ask("probe") == "made"
    assert first.ask("forked probe") == "refused"
    assert first.ask("close") == "closed"
    assert first.ask("forked probe") == "made"
    assert first.ask("probe") == "refused", "the child has it now"
