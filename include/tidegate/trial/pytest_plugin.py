"""The fixture `tidegate_delivery`, for every pytest beside Tidegate; what it needs is imported when it is used."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tidegate.ports import Connection
    from tidegate.trial.delivery import Delivered

Delivery = Callable[[str, Iterable[Mapping[str, Any]]], "Delivered"]


@pytest.fixture(scope="session")
def tidegate_spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Connection]":
    """The connection to the Spark of all deliveries of this session; see `trial_spark`."""
    from tidegate.trial.spark import trial_spark  # noqa: PLC0415 (who doesn't use it needn't wait)

    with trial_spark(os.environ, tmp_path_factory.mktemp("tidegate-spark")) as connection:
        yield connection


@pytest.fixture
def tidegate_delivery(
    tidegate_spark: "Connection", request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Delivery:
    """Deliver made-up records of a subscription: `tidegate_delivery("orders", [{"value": '{"id": 7}'}]).rows`.

    Everything but Kafka and the ledger is real. A record is a mapping with `value` (text, bytes, None for a tombstone),
    or `json`, or `base64`, and maybe `key`, `headers`, `timestamp`, `partition`, `topic`. Offsets, state, and a batch
    that failed stay until the test ends. Raises what the run fails with.
    """
    from tidegate.config.settings import Settings  # noqa: PLC0415 - see above
    from tidegate.trial.delivery import Trial  # noqa: PLC0415 - see above
    from tidegate.trial.records import GivenRecord  # noqa: PLC0415 - see above

    settings = Settings.from_environment(os.environ, request.config.invocation_params.dir)
    trials: dict[str, Trial] = {}

    def deliver(name: str, records: Iterable[Mapping[str, Any]]) -> "Delivered":
        given = [GivenRecord.of(each) for each in records]
        if name not in trials:
            folder = tmp_path_factory.mktemp(f"tidegate-{name}")
            trials[name] = Trial(name, settings, tidegate_spark, folder)
        return trials[name].deliver(given)

    return deliver
