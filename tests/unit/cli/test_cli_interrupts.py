"""What interrupts a command that runs for long."""

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from tidegate.cli.interrupts import interruptible


@pytest.fixture
def handle() -> Iterator[Callable[[int, signal.Handlers], None]]:
    """Sets a signal's handler for the test."""
    before: dict[int, object] = {}

    def begin(number: int, handler: signal.Handlers) -> None:
        before[number] = signal.signal(number, handler)

    yield begin
    for number, handler in before.items():
        signal.signal(number, handler)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_signal_by_which_people_end_a_command_interrupts_it(
    number: int, handle: Callable[[int, signal.Handlers], None]
) -> None:
    handle(number, signal.SIG_DFL)
    with pytest.raises(KeyboardInterrupt), interruptible() as caught:
        os.kill(os.getpid(), number)
    assert caught == [number]
    assert signal.getsignal(number) is signal.SIG_DFL


def test_under_nohup_a_terminal_that_closes_interrupts_nothing(
    handle: Callable[[int, signal.Handlers], None],
) -> None:
    handle(signal.SIGHUP, signal.SIG_IGN)
    with interruptible() as caught:
        os.kill(os.getpid(), signal.SIGHUP)
    assert caught == []
