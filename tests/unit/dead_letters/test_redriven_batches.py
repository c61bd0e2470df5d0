"""The batches some of whose records are rows of later ones, as their dead letters were redriven."""

import pytest
from ledger_batches import plan

from tidegate.dead_letters.lock import RedriveLock
from tidegate.dead_letters.redriven_batches import redriven_records
from tidegate.dead_letters.redriver import Redriver, RedriveRequest, survey
from tidegate.dead_letters.targets import Targets
from tidegate.model.subscription import TopicNames
from tidegate.testing.clock import MemoryClock
from tidegate.testing.offsets import MemoryOffsets
from tidegate.testing.redriving import MemoryDeadLetters, MemoryRedrives

READS = TopicNames(("t",))


@pytest.mark.parametrize(("to", "expected"), [(None, {"first": 2, "second": 1}), ("elsewhere", {})])
def test_letters_that_went_back_are_counted_for_the_batch_that_read_them(
    to: str | None, expected: dict[str, int]
) -> None:
    batches = {"first": plan(0), "second": plan(1)}  # t-0 [0, 10) and [100, 110), t-1 [0, 5) in both
    topic, ledger = MemoryDeadLetters("dead", others={"t": 1, "elsewhere": 1}), MemoryRedrives()

    def put(*offsets: int) -> None:
        for offset in offsets:
            told = {"topic": "t", "partition": "0", "offset": str(offset)}
            topic.put(b"", *((f"dead-letter-{name}", value.encode()) for name, value in told.items()))

    put(3, 4, 103, 555)
    request = RedriveRequest("flights", Targets(READS), to=to)
    turns = RedriveLock(MemoryOffsets(fencing=True), topic.name)
    Redriver(request, topic, ledger, turns, MemoryClock()).run(survey(request, topic, ledger), print)
    put(5)
    found = redriven_records(batches.values(), READS, topic, ledger)
    assert found == {batches[name].id: count for name, count in expected.items()}


def test_where_there_is_no_topic_none_was() -> None:
    assert redriven_records([plan()], READS, MemoryDeadLetters("dead"), MemoryRedrives()) == {}
