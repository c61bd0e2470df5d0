"""The Airflow of this folder."""

from collections.abc import Iterator

import pytest
from shared_airflow import SharedAirflow, running

from tidegate_local.broker import Broker


@pytest.fixture(scope="package")
def airflow(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[SharedAirflow]:
    """The one that the tests of this folder share, each with subscriptions of its own."""
    with running(tmp_path_factory.mktemp("airflow"), broker) as shared:
        yield shared
