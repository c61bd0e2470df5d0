"""A client that hangs when it is closed is given up after a while, and whatever it does changes no outcome."""

import threading
import time
from collections.abc import Iterator
from types import TracebackType

import pytest

from tidegate.kafka import closing
from tidegate.model.subscription import CLOSING_MS

pytestmark = pytest.mark.long


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """What a client waits for that hangs; it comes when the test is over."""
    event = threading.Event()
    yield event
    event.set()


class Client:
    """One that does on leaving what it is told."""

    def __init__(self, leave: threading.Event | Exception | None) -> None:
        self._leave = leave
        self.closed = False

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self._leave, Exception):
            raise self._leave
        if self._leave is not None:
            self._leave.wait()
        self.closed = True


def test_thirty_seconds_are_waited() -> None:
    assert closing.SECONDS == CLOSING_MS / 1000 == 30


def test_closing_that_hangs_is_given_up_with_a_log_line(
    never: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    began = time.monotonic()
    closing.close("the reader", never.wait, 0.2)
    assert 0.2 <= time.monotonic() - began < 5
    assert caplog.messages == ["closing took longer than 0.2 s and was given up: what was done stays done (the reader)"]


def test_closing_that_fails_is_a_log_line_too(caplog: pytest.LogCaptureFixture) -> None:
    with closing.closing_client(Client(RuntimeError("no")), "the reader") as client:
        assert isinstance(client, Client)
    assert caplog.messages == ["closing failed, what was done stays done: no (the reader)"]


def test_closing_that_works_is_waited_for_and_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with closing.closing_client(Client(None), "the reader") as client:
        assert not client.closed
    assert client.closed
    assert caplog.messages == []


def test_a_client_that_only_asked_is_not_waited_for_long(
    never: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    began = time.monotonic()
    with closing.closing_client(Client(never), "the admin client"):
        pass
    assert 2 <= time.monotonic() - began < 10
    assert caplog.messages[0].startswith("closing took longer than 3 s and was given up")


@pytest.mark.parametrize("raised", [ValueError("the outcome"), KeyboardInterrupt()])
def test_the_outcome_stays_what_it_was(
    raised: BaseException, never: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "ASKED_SECONDS", 0.05)
    with pytest.raises(type(raised)) as caught, closing.closing_client(Client(never), "the reader"):
        raise raised
    assert caught.value is raised
