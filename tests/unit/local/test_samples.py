"""The definitions that `make run FORMAT=` makes are right, and read and write what Spark counts."""

import json
from pathlib import Path

import pytest

from tidegate.config.settings import Settings
from tidegate.runtime.definitions import AllDefinitions
from tidegate_local.samples import SAMPLES

PROJECT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("made", "output"),
    [
        ("parquet", "data/lake/flights"),
        ("delta", "data/tables/flights"),
        ("iceberg", "lake.flights.departures"),
    ],
)
def test_a_sample_is_the_only_subscription_and_has_its_own_group(tmp_path: Path, made: str, output: str) -> None:
    for shared in ("include", "spark_jobs"):
        (tmp_path / shared).symlink_to(PROJECT / shared)
    sample = SAMPLES[made](tmp_path)
    environment = {name: str(value) for name, value in sample.homes().items()}
    definitions = AllDefinitions(Settings.from_environment(environment, tmp_path))
    assert definitions.names() == [sample.subscription]
    subscription = definitions.load(sample.subscription)
    assert subscription.consumer.group_id == sample.group
    assert (subscription.processing.format, subscription.processing.output) == (made, output)


def test_tasks_and_spark_find_one_catalog(tmp_path: Path) -> None:
    (lake,) = SAMPLES["iceberg"](tmp_path).connections().values()
    extra = json.loads(json.dumps(lake["extra"]))
    assert extra["uri"] == f"sqlite:///{tmp_path}/data/tables/catalog.db"
    assert extra["warehouse"] == f"file://{tmp_path}/data/tables/iceberg"
    assert (tmp_path / "data/tables").is_dir()
