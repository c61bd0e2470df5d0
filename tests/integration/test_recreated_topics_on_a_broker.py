"""A topic that was deleted and created again, on a real broker: as a user meets it, and by every way of committing."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from broker_topics import delete_topic
from broker_world import committed, coordinated, rows_in_lake
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from desk import TIDEGATE, Desk

from tidegate.model.errors import LostDataError
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import run_batch
from tidegate_local.broker import Broker

pytestmark = pytest.mark.broker

DEFINITION = """\
topics: [{name}]
consumer: {{group.id: {name}-lake, auto.offset.reset: earliest}}
poll-timeout.ms: 2000
processing: {{connection: spark_default, output: lake}}
"""

MakeTopic = Callable[..., str]
Produce = Callable[..., None]
Recreate = Callable[..., None]
Invoke = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def recreate(admin: AdminClient, topic: MakeTopic, produce: Produce) -> Recreate:
    """`recreate(name, partitions=2, records=30, run=...)`: as an administrator does it; `run` while it is gone."""

    def delete_and_create(
        name: str, partitions: int = 2, records: int = 30, run: Callable[[], object] | None = None
    ) -> None:
        delete_topic(admin, name)
        if run is not None:
            run()
        topic(partitions, name=name)
        for partition in range(partitions):
            produce(name, records, partition)

    return delete_and_create


def finish(pipeline: Pipeline) -> list[tuple[int, int]]:
    """Runs until there is nothing to read; what the next one would still read of each partition afterwards."""
    for _ in range(4):
        run = run_batch(pipeline, lambda _step: None)
        if run.error is not None:
            raise run.error
        if run.batch is None:
            break
        if run.batch.awaits_commit and not run.batch.offsets_committed:
            pipeline.commit_open()
    else:
        raise AssertionError("it never came to an end")
    return [(partition, offset) for partition, offset, _ in rows_in_lake(pipeline)]


@pytest.mark.spark
def test_a_user_is_told_and_every_record_of_the_new_topic_reaches_the_lake(
    tidegate: Invoke, topic: MakeTopic, produce: Produce, recreate: Recreate, tmp_path: Path
) -> None:
    name = topic(2)
    for partition in (0, 1):
        produce(name, 10, partition)
    definition = tmp_path / f"{name}.yaml"
    definition.write_text(DEFINITION.format(name=name))
    status, first = tidegate("run", name)
    assert (status, first["rows"]) == (0, 20)
    recreate(name)
    status, refused = tidegate("run", name)
    assert (status, refused["state"], refused["batch_id"]) == (1, "refused", None)
    for said in (f"topic {name}", "was deleted and created again", "on-data-loss: reset", "[0, 30)"):
        assert said in refused["error"]
    assert tidegate("run", name)[0] == 1, "it is refused until somebody decides"
    definition.write_text(DEFINITION.format(name=name) + "on-data-loss: reset\n")
    status, again = tidegate("run", name)
    assert (status, again["rows"], again["committed"]) == (0, 60, {f"{name}-0": 30, f"{name}-1": 30})
    status, nothing = tidegate("run", name)
    assert (status, nothing["why"]) == (0, "there is nothing to read")


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param({}, id="after-processing"),
        pytest.param({"commit_strategy": "on-receipt"}, id="on-receipt", marks=pytest.mark.nightly),
        pytest.param({"commit_strategy": "on-next-poll"}, id="on-next-poll", marks=pytest.mark.nightly),
        pytest.param({"commit_strategy": "checkpoint"}, id="checkpoint", marks=pytest.mark.nightly),
        pytest.param({"commit_fence": "none"}, id="no fence"),
    ],
)
def test_by_every_way_of_committing(
    chosen: Mapping[str, Any],
    broker: Broker,
    topic: MakeTopic,
    produce: Produce,
    recreate: Recreate,
    open_subscription: Callable[..., Pipeline],
) -> None:
    name = topic(2)
    for partition in (0, 1):
        produce(name, 10, partition)
    assert len(finish(open_subscription(name, poll_timeout_ms=3000, **chosen))) == 20
    recreate(name, partitions=3, records=15)
    with pytest.raises(LostDataError, match="created again"):
        finish(open_subscription(name, poll_timeout_ms=3000, **chosen))
    allowed = open_subscription(name, poll_timeout_ms=3000, on_data_loss="reset", **chosen)
    assert len(finish(allowed)) == 20 + 45
    if chosen.get("commit_strategy") != "checkpoint":
        assert committed(broker, f"{name}-lake", (name, 0), (name, 1), (name, 2)) == [15, 15, 15]


def test_with_a_run_in_between_and_without_the_group(
    admin: AdminClient,
    topic: MakeTopic,
    produce: Produce,
    recreate: Recreate,
    open_subscription: Callable[..., Pipeline],
) -> None:
    name = topic(2)
    for partition in (0, 1):
        produce(name, 10, partition)
    pipeline = open_subscription(name, poll_timeout_ms=3000)
    assert len(finish(pipeline)) == 20
    recreate(name, run=lambda: finish(pipeline))
    assert len(finish(open_subscription(name, poll_timeout_ms=3000))) == 20 + 60
    recreate(name, partitions=1, records=5)
    group = ConsumerGroupTopicPartitions(f"{name}-lake")
    kept = coordinated(lambda: admin.list_consumer_group_offsets([group])[group.group_id].result(120))
    assert kept.topic_partitions == [], "Kafka keeps them no longer"
    with pytest.raises(LostDataError, match="created again"):
        finish(open_subscription(name, poll_timeout_ms=3000))
    assert len(finish(open_subscription(name, poll_timeout_ms=3000, on_data_loss="reset"))) == 80 + 5


@pytest.mark.spark
def test_what_a_run_found_gone_is_read_once_it_is_there_again_and_nobody_moved_the_group(
    tidegate: Invoke, desk: Desk, topic: MakeTopic, produce: Produce, recreate: Recreate, tmp_path: Path
) -> None:
    name = topic()
    produce(name, 10, 0)
    (tmp_path / f"{name}.yaml").write_text(DEFINITION.format(name=name))
    assert tidegate("run", name)[1]["rows"] == 10

    def notice() -> None:
        assert tidegate("run", name)[1]["why"].startswith(f"none of the topics exists any more ({name}); create it")

    recreate(name, partitions=1, run=notice)
    assert tidegate("run", name)[1]["rows"] == 30
    desk.environment["TIDEGATE_SUBSCRIPTIONS"] = str(tmp_path)
    said = desk.run(TIDEGATE, "status", name)
    assert "OK" in said
    assert f"lost: {name}-0 stood at 10 when its topic was created again; the new one was read from 0 on" in said
    assert "moved" not in said
