"""SmallRye's AssignSeekOffsetsConsumerTest and what it doesn't ask: where the second run starts."""

from pathlib import Path

import pytest
from broker_world import committed, deliver, in_lake
from definition_files import LEAST

from tidegate.config.reading import load
from tidegate.model.subscription import TopicSelection
from tidegate.monitoring.status import status_of
from tidegate_local.broker import Broker

pytestmark = pytest.mark.broker

NEVER = -1001  # as the client has it


def chosen(folder: Path, topic: str, text: str) -> TopicSelection:
    """What a definition of this topic reads with `assign-seek: text`."""
    path = folder / "chosen.yaml"
    path.write_text(LEAST.replace("topics: [flights]", f"topics: [{topic}]\nassign-seek: '{text}'"), "utf-8")
    return load(path).topics


def test_the_first_run_starts_where_it_is_told_and_the_second_where_the_first_ended(
    broker: Broker, topic, produce, open_subscription, tmp_path: Path
) -> None:
    name = topic(partitions=5)
    for number in range(5):
        produce(name, 10, number)
    definition = {
        "topics": chosen(tmp_path, name, f"0:7, {name}:1:0, 2:-1, 3"),
        "consumer": {"auto_offset_reset": "earliest", "max_poll_records": 16},
        "poll_timeout_ms": 2000,
    }
    everywhere = [(name, number) for number in range(5)]

    def run() -> tuple[list[tuple[int, int, int]], int | None]:
        """The ranges of one run of a new process, and the lag that it leaves."""
        pipeline = open_subscription(name, **definition)
        batch = deliver(pipeline)
        taken = [(r.partition, r.start, r.end) for r in batch.ranges if not r.is_empty] if batch else []
        return taken, status_of(pipeline, 1).lag

    assert run() == ([(0, 7, 9), (1, 0, 8), (3, 0, 6)], 7)
    assert committed(broker, f"{name}-lake", *everywhere) == [9, 8, 10, 6, NEVER]
    assert run() == ([(0, 9, 10), (1, 8, 10), (3, 6, 10)], 0)
    assert run() == ([], 0)
    for number in range(5):
        produce(name, 1, number)
    assert run() == ([(number, 10, 11) for number in range(4)], 0)
    assert committed(broker, f"{name}-lake", *everywhere) == [11, 11, 11, 11, NEVER]
    landed = {0: range(7, 11), 1: range(11), 2: range(10, 11), 3: range(11)}
    assert in_lake(open_subscription(name)) == [(number, offset) for number in landed for offset in landed[number]]


def test_partitions_of_several_topics_as_smallrye_reads_them(topic, produce, open_subscription, tmp_path: Path) -> None:
    """AssignSeekOffsetsConsumerTest.testAssignSeekMultipleTopics: ten records in turn over three partitions."""
    names = [topic(partitions=3) for _ in range(3)]
    for name in names:
        for number in range(3):
            produce(name, 4 if number == 0 else 3, number)
    text = "{}:0:0, {}:1:-1, {}:2:2".format(*names)
    batch = deliver(open_subscription(names[0], topics=chosen(tmp_path, names[0], text)))
    assert batch is not None
    taken = {(r.topic, r.partition): range(r.start, r.end) for r in batch.ranges if not r.is_empty}
    assert taken == {(names[0], 0): range(4), (names[2], 2): range(2, 3)}
    assert batch.landed_records == 5
