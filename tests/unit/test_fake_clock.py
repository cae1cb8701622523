"""The clock that tests move."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from bandog.errors import InvalidJob
from bandog.testing import FakeClock


def test_it_starts_where_it_is_told_to_and_stands_still():
    start = datetime(2031, 5, 6, 7, 8, 9, 123_456, tzinfo=timezone(timedelta(hours=5)))
    clock = FakeClock(start)
    assert clock.now() == clock.now() == start
    assert clock.now().utcoffset() == timedelta(0)


def test_the_default_is_the_documented_one():
    assert FakeClock().now() == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("by", [90, 90.0, timedelta(seconds=90)], ids=repr)
def test_it_is_moved_by_seconds_or_a_timedelta(by):
    clock = FakeClock()
    start = clock.now()
    clock.advance(by)
    assert clock.now() == start + timedelta(seconds=90)
    clock.step_wall(by)
    assert clock.now() == start + timedelta(seconds=180)


def test_it_is_moved_by_microseconds():
    clock = FakeClock()
    start = clock.now()
    for _ in range(10):
        clock.advance(0.000_001)
    assert clock.now() == start + timedelta(microseconds=10)


def test_the_wall_clock_may_be_set_back():
    clock = FakeClock()
    start = clock.now()
    clock.step_wall(-3600)
    assert clock.now() == start - timedelta(hours=1)


def test_a_restart_does_not_move_the_wall_clock():
    clock = FakeClock()
    start = clock.now()
    clock.reboot("second")
    assert clock.now() == start


def test_time_does_not_pass_backwards():
    clock = FakeClock()
    start = clock.now()
    with pytest.raises(InvalidJob):
        clock.advance(-1)
    assert clock.now() == start


@pytest.mark.parametrize("by", [float("nan"), float("inf"), True, "1", None], ids=repr)
def test_what_is_no_duration_is_refused(by):
    clock = FakeClock()
    start = clock.now()
    for move in (clock.advance, clock.step_wall):
        with pytest.raises(InvalidJob) as caught:
            move(by)
        assert caught.value.field == "by"
    assert clock.now() == start


@pytest.mark.parametrize("start", [datetime(2026, 1, 1), "2026-01-01", None], ids=repr)  # noqa: DTZ001 - a naive one
def test_a_start_that_is_no_moment_is_refused(start):
    with pytest.raises(InvalidJob):
        FakeClock(start)
