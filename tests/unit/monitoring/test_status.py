import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from world import Before, Crash, World, deliver, planned

from tidegate.cli import status_text
from tidegate.cli.console import out
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Resolution, State
from tidegate.model.commit_policy import CommitStrategy
from tidegate.model.errors import (
    BatchFailedError,
    GroupInUseError,
    LostDataError,
    MisfitError,
    OvertakenError,
    StaleError,
    StoppedError,
    TidegateError,
    TransitionError,
    UnavailableError,
)
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import Cursor, DeadLetterQueue, DelayedRetryTopic, RecordSchedule, TopicNames
from tidegate.monitoring.status import status_of
from tidegate.operations import reset_syntax
from tidegate.ports import Ledger, Loss, RecordSource
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import run_batch
from tidegate.steps.anchor import Earliest
from tidegate.steps.loss import Lost, partitions_of_lost
from tidegate.steps.prune import Pruned, prune
from tidegate.steps.reset_group import By, ResetRequest, reset_group
from tidegate.testing.definitions import MemoryDefinitions
from tidegate.testing.effects import Effect, watched


def test_it_says_where_each_partition_stands_and_what_became_of_the_last_batches() -> None:
    world = World(partitions=2)
    world.produce(5)
    deliver(world.pipeline())
    world.produce(3, partition=1)
    status = status_of(world.pipeline(), 10)
    assert [(p.at, p.committed, p.end, p.lag) for p in status.positions] == [
        (TopicPartition("orders", 0), 5, 5, 0),
        (TopicPartition("orders", 1), 0, 3, 3),
    ]
    assert (status.lag, status.facts.open, [o.batch.condition for o in status.history]) == (3, None, ["committed"])
    assert json.loads(json.dumps(status.to_json()))["batches"][0]["records"] == 5


def test_it_names_the_open_batch() -> None:
    world = World()
    world.produce(5)
    batch = planned(world.pipeline())
    assert batch is not None
    assert status_of(world.pipeline(), 10).to_json()["open"]["batch_id"] == batch.id


def test_it_says_that_the_subscription_was_unsubscribed() -> None:
    definitions = MemoryDefinitions()
    pipeline = replace(World().pipeline(), definitions=definitions)
    assert status_of(pipeline, 10).to_json()["is_draining"] is False
    definitions.draining.add(pipeline.subscription.name)
    told = status_of(pipeline, 10).to_json()
    assert (told["is_draining"], told["verdict"]) == (True, "WARN")
    assert told["reason"].startswith("it was unsubscribed and is draining")


def test_it_names_lost_positions() -> None:
    world = World()
    world.pipeline().plan()
    world.produce(9)
    world.topics.expire("orders", before=4)
    deliver(world.pipeline(on_data_loss="reset"))
    lost = {"topic": "orders", "partition": 0, "position": 0, "earliest": 4, "end": 9}
    assert status_of(world.pipeline(), 10).to_json()["losses"] == [lost]


def test_without_kafka_it_says_what_the_ledger_knows() -> None:
    world = World()
    world.produce(5)
    deliver(world.pipeline())
    world.topics.reachable = False
    status = status_of(world.pipeline(), 10)
    assert status.lag is None
    assert "unreachable" in (status.facts.unavailable or "")
    assert len(status.history) == 1


@pytest.mark.parametrize(
    ("chosen", "lag"),
    [
        ({"consumer": {"auto_offset_reset": "earliest"}}, 5),
        ({"consumer": {"auto_offset_reset": "latest"}}, 0),
        ({"consumer": {"auto_offset_reset": "none"}}, 5),
        ({"cursor": Cursor("AT_OFFSET", offset=2)}, 3),
        ({"cursor": Cursor("LATEST")}, 0),
    ],
)
def test_before_the_first_commit_the_lag_counts_from_where_the_first_run_begins(
    chosen: dict[str, Any], lag: int
) -> None:
    world = World()
    world.produce(5)
    status = status_of(world.pipeline(**chosen), 10)
    assert ([p.committed for p in status.positions], status.lag) == ([None], lag)


def test_where_each_run_starts_from_the_cursor_the_lag_counts_from_there() -> None:
    world = World()
    world.produce(5)
    chosen = {"commit_strategy": "ignore", "cursor": Cursor("AT_OFFSET", offset=2)}
    world.offsets_of_ignore()
    assert deliver(world.pipeline(**chosen)) is not None
    world.offsets_of_ignore()
    assert status_of(world.pipeline(**chosen), 10).lag == 3


def test_what_arrives_meanwhile_makes_no_lag_negative() -> None:
    world = World()

    class Arriving:
        def before(self, effect: Effect) -> None:
            if effect == Effect.of(RecordSource.watermarks):
                world.produce(1)

        def after(self, effect: Effect) -> None:
            """Nothing."""

    pipeline = watched(world.pipeline(cursor=Cursor("LATEST")), Arriving())
    assert status_of(pipeline, 10).lag == 1


@pytest.mark.parametrize("strategy", ["on-next-poll", "manual"])
def test_what_a_batch_that_waits_for_its_commit_has_published_is_no_lag(strategy: CommitStrategy) -> None:
    world = World(partitions=2)
    world.produce(5)
    pipeline = world.pipeline(commit_strategy=strategy)
    deliver(pipeline)
    assert status_of(pipeline, 10).lag == 0
    world.produce(3)
    world.produce(4, partition=1)
    status = status_of(pipeline, 10)
    assert [(p.committed, p.start, p.lag) for p in status.positions] == [(0, 5, 3), (0, 0, 4)]
    assert status.lag == 7
    assert status_of(world.pipeline(commit_strategy=strategy, consumer={"group_id": "other"}), 10).lag == 12
    world.kafka.reset({TopicPartition("orders", 0): 2})
    assert status_of(pipeline, 10).lag == 10, "the next run abandons the batch"


def test_what_an_open_batch_has_not_published_is_lag() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(commit_strategy="on-next-poll")
    assert planned(pipeline) is not None
    assert status_of(pipeline, 10).lag == 5


@pytest.mark.parametrize("strategy", ["on-receipt", "ignore"])
def test_lag_behind_a_published_batch_without_a_commit_to_come_counts_from_the_position(
    strategy: CommitStrategy,
) -> None:
    world = World()
    if strategy == "ignore":
        world.offsets_of_ignore()
    world.produce(5)
    pipeline = world.pipeline(commit_strategy=strategy)
    with pytest.raises(Crash):
        run_batch(watched(pipeline, Before(Ledger.close)), lambda _: None)
    world.kafka.reset({TopicPartition("orders", 0): 2})
    if strategy == "ignore":
        world.offsets_of_ignore()
    status = status_of(world.pipeline(commit_strategy=strategy), 10)
    assert status.facts.open is not None
    assert status.facts.open.batch.state is State.PUBLISHED
    assert status.lag == (3 if strategy == "on-receipt" else 5)


def test_of_a_topic_that_was_created_again_a_batch_that_waits_for_its_commit_has_read_nothing() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(commit_strategy="manual")
    deliver(pipeline)
    world.topics.delete("orders")
    world.topics.create("orders")
    world.produce(8)
    assert status_of(pipeline, 10).lag == 8


def verdict(pipeline: Pipeline) -> tuple[str, str]:
    """The verdict and its reason."""
    told = status_of(pipeline, 10).to_json()
    return told["verdict"], told["reason"]


def test_what_is_fine_is_ok_and_says_how_the_last_run_ended() -> None:
    world = World()
    world.produce(5)
    batch = deliver(world.pipeline())
    assert batch is not None
    told = status_of(world.pipeline(), 10).to_json()
    assert (told["verdict"], told["last_run"]["said"]) == ("OK", f"batch {batch.id} is committed")
    world.pipeline().plan()
    assert status_of(world.pipeline(), 10).to_json()["last_run"]["said"] == "there is nothing to read"


def test_records_to_which_no_run_comes_though_one_is_due_are_told() -> None:
    world = World()
    world.produce(5)  # by timestamps of long ago
    pipeline = world.pipeline(schedule=RecordSchedule(None, 5000))
    pipeline.run_log.answered("orders")
    told, reason = verdict(pipeline)
    assert (told, reason.startswith("5 records wait, the oldest for ")) == ("WARN", True), reason
    deliver(pipeline)
    world.produce(5)
    assert verdict(pipeline) == ("OK", "")


def test_lag_counts_what_can_be_read_and_a_position_whose_records_are_gone_is_named() -> None:
    world = World()
    world.pipeline().plan()
    world.produce(40)
    world.topics.expire("orders", before=15)
    status = status_of(world.pipeline(), 10)
    assert status.lag == 25
    said, reason = verdict(world.pipeline())
    assert said == "STALLED"
    assert "the committed position is outside of" in reason
    assert "(topic orders, partition 0, offset 0)" in reason
    assert "[15, 40)" in reason
    assert verdict(world.pipeline(on_data_loss="reset"))[0] == "WARN"


def test_the_remedy_for_lost_records_moves_no_other_partition_and_ends_the_verdict() -> None:
    world = World(partitions=2)
    for partition in (0, 1):
        world.produce(20, partition)
    deliver(world.pipeline())
    world.produce(20)
    world.topics.expire("orders", before=30)
    with pytest.raises(LostDataError):
        world.pipeline().plan()
    status = status_of(world.pipeline(), 10)
    (finding,) = status.findings
    assert status.facts.lost_partitions == ("orders:0",)
    assert "`tidegate group reset orders --to earliest --partitions orders:0`" in finding.action
    world.clock.wait(1)
    chosen = reset_syntax.partitions(status.facts.lost_partitions, ())
    reset_group(world.pipeline(), ResetRequest(Earliest(), "ada", partitions=chosen))
    assert (world.committed(0), world.committed(1)) == (30, 20)
    assert verdict(world.pipeline()) == ("OK", "")


def test_lost_partitions_are_written_as_they_are_read() -> None:
    at = frozenset(TopicPartition(topic, number) for topic, number in (("b.c", 10), ("a", 2), ("a", 0)))
    lost = [Lost(Loss(each.topic, each.partition, 5, 7, 9), "it expired") for each in at]
    assert partitions_of_lost(lost) == ("a:0,2", "b.c:10")
    assert reset_syntax.partitions(partitions_of_lost(lost), ()) == at
    created_again = [replace(each, is_of_topic=each.at.topic == "a") for each in lost]
    assert partitions_of_lost(created_again) == ("a", "b.c:10")


def test_records_that_wait_in_a_retry_topic_that_is_read_no_more_are_told_until_it_is_read_again() -> None:
    world = World()
    retried = {"failure_strategy": "delayed-retry-topic", "delayed_retry_topic": DelayedRetryTopic(("orders_retry_9",))}
    world.topics.create("orders_retry_9", 2)
    world.produce(5)
    deliver(world.pipeline(**retried))
    assert verdict(world.pipeline()) == ("OK", ""), "nothing waits there"
    world.produce(3, topic="orders_retry_9")
    assert verdict(world.pipeline(**retried)) == ("OK", "")
    told, why = verdict(world.pipeline())
    assert (told, why) == (
        "WARN",
        "failed records wait to be delivered again in topics that aren't read any more: orders_retry_9 (up to 3)",
    )
    assert status_of(world.pipeline(), 10).to_json()["left_retries"] == {"orders_retry_9": 3}
    world.clock.wait(1)
    deliver(world.pipeline(**retried))
    assert verdict(world.pipeline()) == ("OK", "")


def test_other_topics_that_are_read_no_more_are_nobodys_alarm() -> None:
    world = World()
    world.topics.create("orders_2025")
    world.produce(5)
    deliver(world.pipeline(topics=TopicNames(("orders", "orders_2025"))))
    world.produce(3, topic="orders_2025")
    assert verdict(world.pipeline()) == ("OK", "")


def test_a_position_beyond_the_end_makes_no_lag_negative() -> None:
    world = World()
    world.produce(10)
    deliver(world.pipeline())
    world.kafka.reset({TopicPartition("orders", 0): 25})
    status = status_of(world.pipeline(), 10)
    assert (status.lag, "offset 25" in status.facts.lost[0]) == (0, True)


def test_a_topic_that_was_created_again_is_named_and_all_of_it_can_be_read() -> None:
    world = World()
    world.produce(10)
    deliver(world.pipeline())
    world.topics.delete("orders")
    world.topics.create("orders")
    world.produce(4)
    status = status_of(world.pipeline(), 10)
    assert (status.lag, status.facts.moves) == (4, ())
    assert "created again" in verdict(world.pipeline())[1]


def test_runs_that_are_refused_say_why_and_since_when() -> None:
    world = World()
    world.produce(5)
    world.kafka.join("somebody")
    pipeline = world.pipeline()
    with pytest.raises(GroupInUseError):
        pipeline.plan()
    since = world.clock.now()
    world.clock.wait(60)
    with pytest.raises(GroupInUseError):
        pipeline.plan()
    told = status_of(pipeline, 10).to_json()
    assert (told["verdict"], told["since"], told["last_run"]["error"]) == (
        "STALLED",
        since.isoformat(),
        "GroupInUseError",
    )
    assert "somebody" in told["reason"]
    assert told["members_left"] is False
    world.kafka.leave("somebody")
    status = status_of(pipeline, 10)
    assert status.to_json()["members_left"] is True
    assert verdict(pipeline) == (
        "WARN",
        "the last run failed because the group had live members, and it has none any more",
    )
    assert "`tidegate run orders`" in status.findings[0].action
    deliver(pipeline)
    assert verdict(pipeline) == ("OK", "")


def raising(error: Exception, before: Callable[[], None] = lambda: None) -> Callable[..., None]:
    """A method of a port that fails so, after something else has happened."""

    def method(*_: object, **__: object) -> None:
        before()
        raise error

    return method


def test_a_run_that_another_one_overtook_did_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    monkeypatch.setattr(world.lake, "publish", raising(OvertakenError("another run has settled this batch")))
    with pytest.raises(OvertakenError):
        deliver(pipeline)
    assert status_of(pipeline, 10).facts.last_run is None


@pytest.mark.parametrize("error", [StaleError("a file is gone"), TransitionError("a file is gone")])
def test_runs_that_end_by_something_stale_have_failed_until_one_succeeds(
    error: TidegateError, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    since = world.clock.now()
    with monkeypatch.context() as patched:
        patched.setattr(world.lake, "publish", raising(error))
        for _ in range(2):
            with pytest.raises(type(error)):
                deliver(pipeline)
            world.clock.wait(60)
    assert verdict(pipeline) == ("WARN", "the last run failed: a file is gone")
    assert status_of(pipeline, 10).findings[0].since == since
    deliver(pipeline)
    assert verdict(pipeline) == ("OK", "")


def test_a_run_whose_batch_another_one_has_brought_to_its_end_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    batch = planned(pipeline)
    assert batch is not None
    world.clock.wait(60)
    deliver(world.pipeline())
    world.clock.wait(60)
    with monkeypatch.context() as patched:
        patched.setattr(world.ledger, "batch", raising(StaleError("somebody else went on")))
        with pytest.raises(StaleError):
            pipeline.settle(batch.id)
    assert verdict(pipeline) == ("OK", "")


def test_a_plan_during_which_another_run_has_succeeded_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()

    def meanwhile() -> None:
        world.clock.wait(5)
        world.run_log.ended("orders", "batch b1 is committed")
        world.clock.wait(5)

    with monkeypatch.context() as patched:
        patched.setattr(world.ledger, "look", raising(StaleError("somebody else went on"), meanwhile))
        with pytest.raises(StaleError):
            pipeline.plan()
    assert verdict(pipeline) == ("OK", "")
    with monkeypatch.context() as patched:
        patched.setattr(world.ledger, "look", raising(StaleError("somebody else went on")))
        with pytest.raises(StaleError):
            pipeline.plan()
    assert verdict(pipeline) == ("WARN", "the last run failed: somebody else went on")


def test_what_nobody_expected_is_told_without_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    pipeline = world.pipeline()
    monkeypatch.setattr(world.lake, "published", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pipeline.plan()
    last_run = status_of(pipeline, 10).facts.last_run
    assert last_run is not None
    assert (last_run.error, "division" in last_run.said) == ("ZeroDivisionError", False)


def test_a_group_that_was_moved_past_unread_records_is_shown_before_and_after_the_next_run() -> None:
    world = World()
    world.produce(10)
    deliver(world.pipeline())
    world.produce(30)
    world.kafka.reset({TopicPartition("orders", 0): 30})
    passed = "somebody moved the group: orders-0 forward past [10, 30), which no batch has read"
    assert verdict(world.pipeline()) == ("REWOUND", passed)
    deliver(world.pipeline())
    assert verdict(world.pipeline()) == ("REWOUND", passed)
    world.clock.wait(90_000)
    assert verdict(world.pipeline())[0] == "OK"
    assert [(move.left_at, move.found_at) for move in status_of(world.pipeline(), 10).facts.moves] == [(10, 30)]


def test_what_was_passed_over_while_a_batch_was_processed_is_shown_once_it_is_abandoned() -> None:
    world = World()
    world.produce(10)
    batch = planned(world.pipeline())
    assert batch is not None
    world.pipeline().process(batch.id)
    world.kafka.reset({TopicPartition("orders", 0): 4})
    with pytest.raises(StaleError, match="moved by somebody else"):
        world.pipeline().settle(batch.id)
    deliver(world.pipeline())
    assert world.published() == [(4, 10)]
    passed = "somebody moved the group: orders-0 forward past [0, 4), which no batch has read"
    assert verdict(world.pipeline()) == ("REWOUND", passed)


def test_a_group_that_was_moved_back_to_what_was_passed_over_is_fine_again() -> None:
    world = World()
    world.produce(10)
    deliver(world.pipeline())
    world.produce(30)
    world.kafka.reset({TopicPartition("orders", 0): 30})
    deliver(world.pipeline())
    world.clock.wait(60)
    reset_group(world.pipeline(), ResetRequest(By(-25), "ada"))
    assert verdict(world.pipeline())[0] == "REWOUND"
    assert "forward past [10, 15), which no batch has read" in verdict(world.pipeline())[1]
    reset_group(world.pipeline(), ResetRequest(By(-5), "ada"))
    world.clock.wait(60)
    deliver(world.pipeline())
    assert verdict(world.pipeline()) == ("OK", "")
    assert [(move.left_at, move.found_at) for move in status_of(world.pipeline(), 10).facts.moves] == [(10, 30)]


def test_what_a_ledger_that_went_back_to_its_backup_does_not_know_is_no_move(
    sqlite_ledger: str, tmp_path: Path
) -> None:
    world = World()
    file, backup = tmp_path / "ledger.db", tmp_path / "backup.db"
    world.ledger = SqlLedger(sqlite_ledger)  # type: ignore[assignment] # a double elsewhere
    for number in range(3):
        world.produce(5)
        deliver(world.pipeline())
        if number == 0:
            shutil.copyfile(file, backup)
    shutil.copyfile(backup, file)
    assert verdict(world.pipeline()) == ("OK", "")
    world.produce(5)
    deliver(world.pipeline())
    assert verdict(world.pipeline()) == ("OK", "")
    world.kafka.reset({TopicPartition("orders", 0): 0})
    (move,) = status_of(world.pipeline(), 10).facts.moves
    assert (move.left_at, move.found_at) == (20, 0)


def test_a_second_ledger_that_takes_records_of_the_group_is_told_before_and_after_the_next_run() -> None:
    world, other = World(), World()
    world.produce(5)
    deliver(world.pipeline())
    other.clock, other.topics, other.offsets = world.clock, world.topics, world.offsets
    world.produce(10)
    deliver(other.pipeline())
    for _ in range(2):
        told, why = verdict(world.pipeline())
        assert told == "REWOUND"
        assert "this ledger doesn't know, nor the output, moved the group: orders-0 forward past [5, 15)" in why
        (finding,) = status_of(world.pipeline(), 10).findings
        assert "use the same ledger (`tidegate settings` names it" in finding.action
        world.produce(5)
        deliver(world.pipeline())
    world.clock.wait(60)
    reset_group(world.pipeline(), ResetRequest(By(-20), "ada"))
    assert verdict(world.pipeline()) == ("OK", "")


def test_an_output_that_lacks_this_ledgers_own_batch_accuses_no_other_ledger_alone() -> None:
    world, other = World(), World()
    world.produce(5)
    batch = deliver(world.pipeline())
    assert batch is not None
    other.clock, other.topics, other.offsets = world.clock, world.topics, world.offsets
    world.produce(10)
    deliver(other.pipeline())
    (finding,) = status_of(world.pipeline(), 10).findings
    assert "the output lacks" not in finding.reason
    world.lake.published_attempts.clear()
    (finding,) = status_of(world.pipeline(), 10).findings
    assert finding.reason.endswith(f"; the output lacks batch {batch.id}, too, which this ledger has published")
    assert finding.action.startswith("see whether the output was moved or deleted, and put it back first")


def test_an_output_that_is_asked_for_another_ledgers_batch_is_asked_once_and_may_be_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, other = World(partitions=3), World()
    other.clock, other.topics, other.offsets = world.clock, world.topics, world.offsets
    for each in (world, other):
        for partition in range(3):
            world.produce(5, partition)
        deliver(each.pipeline())
    asked: list[object] = []

    def away(*of: object) -> None:
        asked.append(of)
        raise UnavailableError("the output doesn't answer")

    monkeypatch.setattr(world.lake, "published", away)
    assert verdict(world.pipeline()) == ("OK", "")
    assert len(asked) == 1


def test_a_run_that_found_another_delivery_under_way_is_told_by_that() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(max_retries=2)
    batch = planned(pipeline)
    assert batch is not None
    for _ in range(3):
        world.ledger.start_delivery(batch.id)
    run = run_batch(pipeline, lambda _: None)
    assert "wait for its end" in str(run.error)
    told, why = verdict(pipeline)
    assert (told, why) == ("OK", f"a delivery of batch {batch.id} is under way, with a sign of life 0 s ago")
    world.clock.wait(31)
    told, why = verdict(pipeline)
    assert (told, why) == ("WARN", f"the last run failed: {run.error}")


def test_another_group_begins_elsewhere_and_nobody_moved_it() -> None:
    world = World()
    world.produce(5)
    deliver(world.pipeline())
    world.kafka.reset({TopicPartition("orders", 0): 0})
    world.produce(5)
    other = {"group_id": "orders-other"}
    deliver(world.pipeline(consumer=other))
    assert status_of(world.pipeline(consumer=other), 10).facts.moves == ()


def test_an_open_batch_that_commits_in_parts_moves_nothing() -> None:
    world = World()
    world.produce(10)
    batch = planned(world.pipeline(commit_strategy="throttled"))
    assert batch is not None
    world.kafka.reset({TopicPartition("orders", 0): 4}, str(batch.receipt))
    assert status_of(world.pipeline(commit_strategy="throttled"), 10).facts.moves == ()


def test_a_topic_that_is_not_there_is_named() -> None:
    world = World(topic=None)
    assert verdict(world.pipeline()) == ("WARN", "not there: orders")
    world.pipeline().plan()
    assert status_of(world.pipeline(), 10).facts.missing == ("orders",)


def test_a_topic_for_failed_records_that_is_not_there_is_named_before_and_after_the_next_run_is_refused() -> None:
    world = World()
    world.produce(1)
    pipeline = world.pipeline(failure_strategy="dead-letter-queue")
    since = None
    for _ in range(2):
        worst, *others = status_of(pipeline, 10).findings
        assert (worst.verdict, worst.reason) == (
            "STALLED",
            "no run begins: dead-letter topic dead-letter-topic-orders isn't there",
        )
        assert worst.action.startswith("`tidegate create-topics orders` creates what is missing")
        assert (worst.since, others) == (since, [])
        since = world.clock.now()
        run_batch(pipeline, lambda _: None)
    world.topics.create("dead-letter-topic-orders", 1)
    run_batch(pipeline, lambda _: None)
    assert verdict(pipeline) == ("OK", "")


def test_records_that_were_dropped_are_told_for_a_day_or_until_they_have_a_topic() -> None:
    world = World()
    world.produce(3)
    world.topics.create("orders_retry_1", 1)
    retries = {"failure_strategy": "delayed-retry-topic", "poll_timeout_ms": 1}
    retries["delayed_retry_topic"] = DelayedRetryTopic(("orders_retry_1",))
    pipeline = world.pipeline(**retries)
    world.processor.rejected = 2
    deliver(pipeline)
    assert verdict(pipeline) == ("OK", "")
    world.clock.wait(1)
    batch = deliver(pipeline)
    assert batch is not None
    (found,) = status_of(pipeline, 1).findings
    dropped = f"2 rejected records were dropped without a retry left, in batch {batch.id}; `_rejected` in the output"
    assert (found.verdict, found.reason) == ("WARN", f"{dropped} has them")
    assert found.action.startswith("set dead-letter-queue.topic")
    world.topics.create("dead", 1)
    assert verdict(world.pipeline(**retries, dead_letter_queue=DeadLetterQueue("dead"))) == ("OK", "")
    world.clock.wait(86_400)
    assert verdict(pipeline) == ("OK", "")


def test_without_kafka_the_verdict_says_since_when() -> None:
    world = World()
    world.pipeline().plan()
    contact = world.run_log.contact("orders")
    assert contact is not None
    world.clock.wait(60)
    world.topics.reachable = False
    told = status_of(world.pipeline(), 10).to_json()
    assert (told["verdict"], told["since"], told["answered_at"]) == ("UNREACHABLE", *[contact.since.isoformat()] * 2)


def test_moves_are_looked_for_in_more_batches_than_are_shown() -> None:
    world = World()
    for _ in range(3):
        world.produce(5)
        deliver(world.pipeline())
    world.kafka.reset({TopicPartition("orders", 0): 0})
    deliver(world.pipeline())
    status = status_of(world.pipeline(), 1)
    assert (len(status.history), len(status.facts.moves)) == (1, 1)


def test_of_a_batch_whose_last_delivery_died_nobody_is_to_mend_anything() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(max_retries=0)
    batch = planned(pipeline)
    assert batch is not None
    world.ledger.start_delivery(batch.id)
    world.clock.wait(31)
    run_batch(pipeline, lambda _: None)
    (found,) = status_of(pipeline, 10).findings
    assert (found.verdict, found.action.partition(",")[0]) == ("STOPPED", "see the log of its last delivery")


def test_a_batch_that_has_failed_as_often_as_it_may_is_told_as_the_plan_tells_it() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(max_retries=0)

    def refuse(*_: Any) -> None:
        raise MisfitError("column rate is a string, and the table has a double")

    world.lake.publish = refuse  # type: ignore[method-assign]
    run = run_batch(pipeline, lambda _: None)
    assert (run.state, type(run.error)) == ("failed", MisfitError)
    with pytest.raises(StoppedError, match=r"the retry limit was reached.*`tidegate clear orders` has the") as told:
        pipeline.preview()
    (found,) = status_of(pipeline, 10).findings
    assert found.verdict == "STOPPED"
    assert "the retry limit was reached: column rate is a string" in found.reason
    assert found.reason.splitlines()[1] in str(told.value)
    assert found.action.startswith("mend what failed it, then `tidegate clear orders` has the batch delivered again")
    world.clock.wait(1)
    pipeline.clear("ada", "the table is mended")
    (found,) = status_of(pipeline, 10).findings
    assert found.reason.startswith("ada answered redeliver")


def test_a_delivery_under_way_is_told_and_not_how_the_run_before_it_failed() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    world.processor.failures.append("no memory")
    run_batch(pipeline, lambda _: None)
    batch = world.ledger.look("orders").open
    assert batch is not None
    world.ledger.start_delivery(batch.id)
    world.clock.wait(30)
    (found,) = status_of(pipeline, 10).findings
    assert (found.verdict, found.action) == ("OK", "")
    assert found.reason == f"a delivery of batch {batch.id} is under way, with a sign of life 30 s ago"
    world.clock.wait(1)
    assert [each.verdict for each in status_of(pipeline, 10).findings] == ["WARN"]


def test_on_a_terminal_it_says_who_answered_what_and_why() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(max_retries=0)
    world.processor.failures.append("no memory")
    run_batch(pipeline, lambda _: None)
    world.clock.wait(1)
    pipeline.clear("ada", "a bigger machine [2]", Resolution.REDELIVER)
    with out.capture() as shown:
        status_text.print_all([status_of(pipeline, 10).to_json()])
    said = " ".join(shown.get().split())
    assert "it failed, and was answered since" in said
    assert "has the batch delivered again" not in said, "nobody is to do again what was done"
    assert "ada answered redeliver, 2" in said
    assert "ada answered redeliver at 2" in said
    assert "the next run delivers batch" in said
    assert ": a bigger machine [2]" in said


def test_what_the_last_run_said_is_not_said_twice() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(max_retries=0)
    world.processor.failures.append("no memory")
    run_batch(pipeline, lambda _: None)
    with out.capture() as shown:
        status_text.print_all([status_of(pipeline, 10).to_json()])
    assert shown.get().count("no memory") == 1, shown.get()
    assert "it failed, as said above" in shown.get()


@pytest.mark.parametrize(("waiting", "said"), [(1, "1 dead letter waits"), (2_000, "2,000 dead letters wait")])
def test_dead_letters_that_wait_are_counted(waiting: int, said: str) -> None:
    with out.capture() as shown:
        status_text.print_all([status_of(World().pipeline(), 10).to_json() | {"dead_letters_waiting": waiting}])
    assert f"  {said} to be redriven: `tidegate dead-letters list orders` says why\n" in shown.get()


def test_since_when_runs_have_failed_is_not_since_when_this_has_been_so() -> None:
    told = {
        "verdict": "STALLED",
        "reason": "no run goes on: no topic",
        "since": "2026-01-02T11:00:00+00:00",
        "action": "",
    }
    with out.capture() as shown:
        status_text.print_finding(told)
    assert shown.get() == "STALLED: no run goes on: no topic (runs have failed since 2026-01-02 11:00:00 UTC)\n"


@pytest.mark.parametrize(
    ("answered_at", "said"), [("2026-01-02T11:00:00+00:00", "last answer to a run"), (None, "first tried")]
)
def test_since_when_no_broker_answers_is_told_by_its_last_answer(answered_at: str | None, said: str) -> None:
    told = {
        "verdict": "UNREACHABLE",
        "reason": "no broker answers",
        "since": "2026-01-02T11:00:00+00:00",
        "action": "",
        "answered_at": answered_at,
    }
    with out.capture() as shown:
        status_text.print_finding(told)
    assert shown.get() == f"UNREACHABLE: no broker answers ({said} 2026-01-02 11:00:00 UTC)\n"


@pytest.mark.parametrize("show", [status_text.print_lines, status_text.print_brief])
def test_a_line_is_one_line_whatever_the_reason(show: Callable[[list[dict[str, Any]]], None]) -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(max_retries=0)
    world.processor.failures.append("no memory\n  in line 7\n  in line 8")
    run_batch(pipeline, lambda _: None)
    told = status_of(pipeline, 10).to_json()
    assert "\n" in told["reason"]
    with out.capture() as shown:
        show([told])
    assert len(shown.get().splitlines()) == 1, shown.get()
    assert "no memory" in shown.get()
    assert "To do: " in shown.get()


def test_what_was_pruned_between_old_batches_is_no_move() -> None:
    """Of old batches only some stay, so where one of them ends says nothing about where the next one began."""
    world = World()
    world.topics.create("dead-letter-topic-orders", 1)
    strict = {"failure_strategy": "dead-letter-queue", "max_retries": 0}
    world.produce(2)
    batch = planned(world.pipeline(**strict))
    assert batch is not None
    world.processor.failures.append("a record is wrong")
    with pytest.raises(BatchFailedError):
        world.pipeline(**strict).process(batch.id)
    world.pipeline(**strict).settle(batch.id)
    for _ in range(3):
        world.produce(2)
        deliver(world.pipeline())
    world.clock.wait(60)
    for _ in range(2):
        world.produce(2)
        deliver(world.pipeline())
    prune("orders", 30_000, Pruned(), landing=world.landing, ledger=world.ledger, dry_run=False)
    status = status_of(world.pipeline(retention_ms=30_000), 99)
    assert [entry.batch.ranges[0].start for entry in status.history] == [10, 8, 0]
    assert (status.facts.moves, status.to_json()["verdict"]) == ((), "OK")
    world.clock.wait(60)
    world.kafka.positions[TopicPartition("orders", 0)] = replace(
        world.kafka.positions[TopicPartition("orders", 0)], offset=4, metadata=""
    )
    (move,) = status_of(world.pipeline(retention_ms=30_000), 99).facts.moves
    assert (move.left_at, move.found_at) == (12, 4)


def test_a_ledger_that_knows_nothing_of_the_groups_batches_is_told_until_a_run_has_noted_them() -> None:
    world = World()
    world.produce(3)
    deliver(world.pipeline())
    world.lose_ledger()
    world.pipeline().run_log.answered("orders")  # a triggerer that looks for records
    found = status_of(world.pipeline(), 10).to_json()
    assert (found["verdict"], found["reason"]) == (
        "WARN",
        "this ledger knows of no batch of group orders-lake, for which Tidegate has committed",
    )
    assert "TIDEGATE_LEDGER" in found["action"]
    assert deliver(world.pipeline(poll_timeout_ms=1)) is None
    assert status_of(world.pipeline(), 10).to_json()["verdict"] == "OK"


@pytest.mark.parametrize("is_open", [False, True])
def test_what_comes_with_a_renamed_subscription_is_told_before_its_first_run(is_open: bool) -> None:
    world = World()
    world.produce(3)
    deliver(world.pipeline())
    if is_open:
        world.produce(3)
        planned(world.pipeline())
    renamed = replace(world.pipeline(name="purchases"), definitions=MemoryDefinitions())
    found = status_of(renamed, 10).to_json()
    assert found["verdict"] == ("STALLED" if is_open else "WARN")
    assert found["reason"].startswith("the group goes over from subscription orders, whose definition is gone")
    assert ("open batch b" in found["reason"]) is is_open
    deliver(renamed)
    assert status_of(renamed, 10).to_json()["verdict"] == "OK"
