"""What every clock promises."""

from datetime import UTC, timedelta

import pytest

from tidegate.clock import SystemClock
from tidegate.ports import Clock
from tidegate.testing.clock import MemoryClock


@pytest.fixture(params=[SystemClock, MemoryClock])
def clock(request: pytest.FixtureRequest) -> Clock:
    made: Clock = request.param()
    return made


def test_now_is_in_utc(clock: Clock) -> None:
    assert clock.now().tzinfo is UTC


def test_waiting_lets_both_times_pass(clock: Clock) -> None:
    now, monotonic = clock.now(), clock.monotonic()
    clock.wait(0.05)
    assert clock.monotonic() - monotonic >= 0.05
    assert clock.now() - now >= timedelta(seconds=0.04)  # the system's may be set back a little meanwhile


def test_time_of_the_double_passes_only_in_wait() -> None:
    clock = MemoryClock()
    assert (clock.now(), clock.monotonic()) == (clock.now(), clock.monotonic())
    before = clock.now()
    clock.wait(3600)
    assert (clock.now() - before, clock.monotonic()) == (timedelta(hours=1), 3600)
