"""Making a client: an interrupt is an interrupt in whatever moment it comes, and never the definition's fault."""

import signal
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tidegate.kafka.clients import create_client
from tidegate.model.errors import WrongDefinitionError

_CONFIGURATION = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}


class _Interrupting:
    """A value that is read by the library in the very moment in which somebody presses Ctrl-C."""

    def __str__(self) -> str:
        signal.raise_signal(signal.SIGUSR1)
        return "a client"


@pytest.fixture(autouse=True)
def interrupt() -> Iterator[None]:
    """SIGUSR1 does here what SIGINT does elsewhere, so that pytest keeps its own."""
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("make", [Consumer, Producer, AdminClient])
def test_an_interrupt_while_a_client_is_made_is_not_taken_for_a_wrong_configuration(
    make: type[Consumer] | type[Producer] | type[AdminClient],
) -> None:
    with pytest.raises(KeyboardInterrupt):
        create_client(make, {**_CONFIGURATION, "client.id": _Interrupting()})


def test_what_the_library_does_not_take_is_the_connections_fault() -> None:
    with pytest.raises(WrongDefinitionError, match=r'client can.t be made: No such configuration property: "colour"'):
        create_client(Consumer, {**_CONFIGURATION, "colour": "blue"})
