"""Chaos that is over while a broker is only just back waits for it, as it does for what was sent."""

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from chaos import producing
from chaos.producing import Producing


class LateProducer:
    """A producer of a broker that says nothing the first times, and then all that is asked of it."""

    refusals = 0
    asked_while_it_stops = threading.Event()

    def __init__(self, _: dict[str, Any]) -> None: ...

    def init_transactions(self, _: float) -> None:
        cls = type(self)
        if cls.refusals:
            cls.refusals -= 1
            assert cls.asked_while_it_stops.wait(60)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def begin_transaction(self) -> None:
        raise KafkaException(KafkaError(KafkaError._STATE))

    def abort_transaction(self, _: float) -> None: ...

    def flush(self, _: float) -> int:
        return 0

    def produce(self, *_: object, **__: object) -> None: ...

    def poll(self, _: float) -> int:
        return 0


def test_a_broker_that_is_only_just_back_is_waited_for_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producing, "Producer", LateProducer)
    LateProducer.refusals = 3
    flow = Producing("nowhere:9", "orders", rate=100, seed=1)
    stop = flow._stop.set

    def stop_and_tell() -> None:
        stop()
        LateProducer.asked_while_it_stops.set()

    monkeypatch.setattr(flow._stop, "set", stop_and_tell)
    with flow.going_on():
        pass
    assert LateProducer.refusals == 0
