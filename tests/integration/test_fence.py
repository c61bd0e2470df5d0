"""The fence on a real broker: who comes late moves nothing and says so, and whoever else moved the group is heard."""

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic

import pytest
from broker_topics import delete_topic, make_topic
from broker_world import Scene, rows_in_lake
from by_night import rows_one_in
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from crashing import Point, Striker, after, before, run_watched

from tidegate.model.batch import Outcome, State
from tidegate.model.errors import CommitFailedError, GroupInUseError, StaleError
from tidegate.model.subscription import CommitFence, TopicNames
from tidegate.ports import Fence, Lake, Ledger, OffsetStore

pytestmark = pytest.mark.broker

FENCES = ["transactional", "none"]


@pytest.fixture
def fed(scene: Callable[..., Scene]) -> Scene:
    made = scene(partitions=2)
    made.feed.send(0, 4)
    made.feed.send(1, 3)
    return made


OVERTAKEN = "was planned as .* stands at .* nothing is committed|newer committer of this group has taken the fence"

REFUSALS = [
    (before("plan", Fence.commit), "StaleError", "the newer one goes on, and if it fails, the next run does"),
    (before("process", Ledger.start_delivery), None, "another run .* has settled this batch"),
    (before("commit", OffsetStore.fence), "StaleError", OVERTAKEN),
    (before("commit", Lake.publish), "StaleError", "is gone, so somebody published or abandoned it"),
    (before("commit", Fence.commit), "StaleError", "newer committer of this group has taken the fence"),
    (before("commit", OffsetStore.fence, fence="none"), "StaleError", OVERTAKEN),
    (before("commit", Lake.publish, fence="none"), "StaleError", "is gone, so somebody published"),
]


def test_a_run_that_slept_through_a_newer_ones_plan_leaves_the_batch_to_it(fed: Scene) -> None:
    sleeper = fed.stop(before("plan", Ledger.open))
    fed.go_on()
    stood = fed.feed.committed(fed.group)
    ended = sleeper.wake()
    assert not ended.error, ended
    assert fed.feed.committed(fed.group) == stood
    fed.audit()


@pytest.mark.parametrize(
    ("point", "error", "said"), rows_one_in(2, REFUSALS), ids=[str(point) for point, _, _ in REFUSALS]
)
def test_a_run_that_slept_through_a_newer_ones_commit_is_refused_and_moves_nothing(
    point: Point, error: str | None, said: str, fed: Scene
) -> None:
    sleeper = fed.stop(point)
    fed.go_on()
    fed.feed.send(0, 2)
    assert len(fed.go_on()) == 1
    stood = fed.feed.committed(fed.group)
    ended = sleeper.wake()
    assert ended.error == error, ended
    assert re.search(said, ended.message), ended
    assert fed.feed.committed(fed.group) == stood
    fed.audit()


def test_without_a_fence_a_sleeper_may_move_the_group_back_and_the_next_runs_mend_it(fed: Scene) -> None:
    sleeper = fed.stop(before("commit", Fence.commit, fence="none"))
    fed.go_on()
    fed.feed.send(0, 2)
    fed.go_on()
    assert fed.feed.committed(fed.group) == {0: 6, 1: 3}
    sleeper.wake()
    assert fed.feed.committed(fed.group) == {0: 4, 1: 3}
    fed.go_on()
    fed.audit()


def test_a_landing_reported_late_is_not_mixed_in(fed: Scene) -> None:
    sleeper = fed.stop(before("land", Ledger.landed))
    (batch,) = fed.go_on()
    sleeper.wake()
    with fed.pipeline() as pipeline:
        assert pipeline.ledger.batch(batch.id) == batch
    fed.audit()
    assert fed.leftovers() == []


@pytest.mark.parametrize(
    "point",
    [
        after("plan", Ledger.open),
        after("land", Ledger.landed),
        after("process", Ledger.processed),
        after("commit", Lake.publish),
    ],
    ids=str,
)
def test_a_partition_that_is_reset_during_the_batch_is_honoured_and_the_others_go_on(point: Point, fed: Scene) -> None:
    fed.kill(point)
    fed.feed.reset(fed.group, {0: 2})
    with fed.pipeline() as pipeline:
        batch = pipeline.ledger.look(fed.subscription.name).open
        assert batch is not None
        if batch.state in {State.PROCESSED, State.PUBLISHED}:
            with pytest.raises(StaleError, match=r"-0 was planned as .* stands at 2 without a receipt"):
                pipeline.settle(batch.id)
        published = rows_in_lake(pipeline)
        done = fed.go_on()
        assert {(r.partition, r.start) for r in done[0].ranges} == {(0, 2), (1, 3 if published else 0)}
        abandoned = pipeline.ledger.batch(batch.id)
        assert abandoned.outcome is Outcome.ABANDONED
        assert "-0 was planned as [0, 4) and stands at 2 without a receipt of ours" in (abandoned.reason or "")
        asked_for = [row for row in fed.feed.rows if row[:2] >= (0, 2)]
        first = [row for row in asked_for if row[0] == 0] if published else asked_for
        assert rows_in_lake(pipeline) == sorted([*published, *first])
    assert fed.feed.committed(fed.group) == fed.feed.ends()
    assert fed.leftovers() == []


@pytest.mark.parametrize("fence", FENCES)
def test_a_group_that_was_deleted_during_the_batch_goes_on_from_the_ledger(fence: CommitFence, fed: Scene) -> None:
    fed.go_on()
    fed.feed.send(0, 2)
    fed.kill(after("process", Ledger.processed, fence=fence))
    fed.feed.admin.delete_consumer_groups([fed.group])[fed.group].result(120)
    fed.go_on()
    fed.audit()


@contextmanager
def joined(scene: Scene) -> Iterator[None]:
    """A live consumer of the client id `dashboard` is in the group."""
    member = Consumer(
        {
            "bootstrap.servers": scene.broker.bootstrap_servers,
            "group.id": scene.group,
            "client.id": "dashboard",
            "enable.auto.commit": False,
        }
    )
    member.subscribe([scene.feed.topic])
    deadline = monotonic() + 60
    while not member.assignment():
        assert monotonic() < deadline, "the consumer didn't join"
        member.poll(0.1)
    try:
        yield
    finally:
        member.close()


@pytest.mark.parametrize("fence", FENCES)
def test_a_live_consumer_in_the_group_is_refused_by_name_until_it_is_gone(fence: CommitFence, fed: Scene) -> None:
    scene = replace(fed, subscription=replace(fed.subscription, commit_fence=fence))
    with joined(scene), scene.pipeline() as pipeline, pytest.raises(GroupInUseError, match="client dashboard at "):
        pipeline.plan()
    assert scene.feed.committed(scene.group) == {}
    scene.kill(after("process", Ledger.processed, fence=fence))
    with scene.pipeline() as pipeline:
        batch = pipeline.ledger.look(scene.subscription.name).open
        assert batch is not None
        with (
            joined(scene),
            pytest.raises(GroupInUseError, match=f"client dashboard at .*{scene.group}.*stop"),
        ):
            pipeline.settle(batch.id)
        assert rows_in_lake(pipeline) == []
    assert scene.feed.committed(scene.group) == {0: 0, 1: 0}
    scene.go_on()
    scene.audit()


@pytest.mark.parametrize("fence", FENCES)
def test_a_partition_that_the_broker_refuses_fails_the_commit_by_name_and_offset(
    fence: CommitFence, fed: Scene, admin: AdminClient
) -> None:
    """The topic is deleted between the last comparison and the commit."""
    doomed = f"doomed-{uuid.uuid4().hex[:8]}"
    make_topic(admin, doomed)
    fed.feed.producers.plain.produce(doomed, b"value")
    assert fed.feed.producers.plain.flush(120) == 0
    topics = TopicNames((fed.feed.topic, doomed))
    definition = replace(
        fed.subscription, commit_fence=fence, topics=topics, commit_timeout_ms=4000
    )  # it waits as long
    scene = replace(fed, subscription=definition)

    striker = Striker(before("commit", Fence.commit), lambda: delete_topic(admin, doomed))
    with (
        scene.pipeline() as pipeline,
        pytest.raises(CommitFailedError, match=rf"nknown topic or partition.*topic {doomed}, partition 0, offset 1\b"),
    ):
        run_watched(pipeline, striker)
    assert scene.feed.committed(scene.group) == ({0: 0, 1: 0} if fence == "transactional" else {0: 4, 1: 3})
