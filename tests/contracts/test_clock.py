"""What every clock promises."""

from datetime import UTC, timedelta

import pytest

from tidegate.ports import Clock
from tidegate.runtime.clock import SystemClock
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


def test_what_is_called_again_and_again_is_so_until_its_context_ends(clock: Clock) -> None:
    calls: list[float] = []
    deadline = clock.monotonic() + 120
    with clock.every(0.01, lambda: calls.append(clock.monotonic())):
        while len(calls) < 3 and clock.monotonic() < deadline:
            clock.wait(0.01)
    assert len(calls) >= 3
    before = len(calls)
    clock.wait(0.05)
    assert len(calls) == before


def test_time_of_the_double_passes_only_in_wait() -> None:
    clock = MemoryClock()
    assert (clock.now(), clock.monotonic()) == (clock.now(), clock.monotonic())
    before = clock.now()
    clock.wait(3600)
    assert (clock.now() - before, clock.monotonic()) == (timedelta(hours=1), 3600)
