"""A group is one subscription's, in one cluster: what is renamed goes on, and what is another's is left alone."""

from dataclasses import replace
from typing import Any

import pytest
from world import OUTPUT, World, deliver, planned

from tidegate.model.batch import Outcome
from tidegate.model.errors import BatchFailedError, OvertakenError, StaleError, WrongDefinitionError
from tidegate.model.offsets import Range
from tidegate.monitoring.health import Verdict
from tidegate.monitoring.status import status_of
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import run_batch
from tidegate.steps.ownership import accept_cluster
from tidegate.testing.definitions import MemoryDefinitions

QUICK: dict[str, Any] = {"poll_timeout_ms": 1}
STRATEGIES = ["after-processing", "on-receipt", "on-next-poll", "throttled", "latest", "manual", "checkpoint"]


def pipeline(world: World, name: str = "orders", others: MemoryDefinitions | None = None, **values: Any) -> Pipeline:
    """The definition of this name, beside others."""
    return replace(world.pipeline(name=name, **{**QUICK, **values}), definitions=others or MemoryDefinitions())


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("lost", [False, True])
def test_a_renamed_definition_finishes_the_open_batch_and_goes_on_behind_it(strategy: str, lost: bool) -> None:
    world = World()
    world.produce(40)
    chosen: dict[str, Any] = {"commit_strategy": strategy, "consumer": {"max_poll_records": 20}}
    first = pipeline(world, **chosen)
    open_batch = planned(first)
    assert open_batch is not None
    first.receive(open_batch.id)
    if lost:
        world.kafka.expire()
    renamed = pipeline(world, "purchases", **chosen)
    batches = []
    for _ in range(4):
        run = run_batch(renamed, lambda _step: None)
        assert run.error is None
        if run.batch is not None and run.batch.awaits_commit and not run.batch.offsets_committed:
            renamed.commit_open()
        batches.append(run.batch)
    assert batches[0] is not None
    assert (batches[0].id, batches[0].subscription) == (open_batch.id, "purchases")
    assert world.published() == [(0, 20), (20, 40)]
    assert world.committed() == 40
    assert [o.batch.subscription for o in world.ledger.history("purchases", 9)] == ["purchases"] * 2
    assert world.ledger.history("orders", 9) == ()


def test_a_batch_that_stopped_under_the_former_name_is_cleared_under_the_new_one() -> None:
    world = World()
    world.produce(5)
    first = pipeline(world, max_retries=0)
    world.processor.failures.append("no memory")
    assert run_batch(first, lambda _step: None).error is not None
    renamed = pipeline(world, "purchases", max_retries=0)
    cleared = renamed.clear("ada", "more of it")
    assert (cleared.subscription, cleared.condition) == ("purchases", "failed")
    assert run_batch(renamed, lambda _step: None).error is None
    assert world.published() == [(0, 5)]
    with pytest.raises(StaleError, match="no batch is open: nothing was cleared"):
        renamed.clear("ada", "")


def test_a_renamed_definition_without_an_open_batch_goes_on_where_the_ledger_knows() -> None:
    world = World()
    world.produce(10)
    deliver(pipeline(world))
    world.kafka.expire()
    world.produce(5)
    batch = deliver(pipeline(world, "purchases"))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 10, 15),)


def test_a_renamed_definition_finds_what_is_published_even_without_the_ledger() -> None:
    world = World()
    world.produce(10)
    first = pipeline(world, commit_strategy="manual")
    assert run_batch(first, lambda _step: None).error is None
    assert world.published() == [(0, 10)]
    world.lose_ledger()
    renamed = pipeline(world, "purchases")
    assert run_batch(renamed, lambda _step: None).error is None
    assert (world.published(), world.committed()) == ([(0, 10)], 10)


def test_back_and_forth_nothing_comes_twice() -> None:
    world = World()
    for name in ("orders", "purchases", "orders", "purchases", "sales"):
        world.produce(3)
        assert deliver(pipeline(world, name)) is not None
    assert world.published() == [(0, 3), (3, 6), (6, 9), (9, 12), (12, 15)]


def test_a_run_that_slept_while_its_definition_was_renamed_finds_that_nothing_is_left_to_do() -> None:
    world = World()
    world.produce(10)
    assert deliver(pipeline(world)) is not None
    assert deliver(pipeline(world, "purchases")) is None
    slept = pipeline(world, "orders", MemoryDefinitions({"purchases": "orders-lake"}))
    with pytest.raises(OvertakenError, match=r"^definition orders is gone, and purchases has its group orders-lake"):
        slept.plan()


@pytest.mark.parametrize("group", ["orders-lake", None])
def test_while_the_definition_that_holds_the_group_is_there_the_other_is_refused_by_name(group: str | None) -> None:
    world = World()
    world.produce(10)
    assert deliver(pipeline(world)) is not None
    world.produce(5)
    others = MemoryDefinitions({"orders": group, "purchases": "orders-lake"})
    with pytest.raises(
        WrongDefinitionError, match=r"group orders-lake is subscription orders's.*purchases.*of its own"
    ):
        pipeline(world, "purchases", others).plan()
    batch = deliver(pipeline(world, others=MemoryDefinitions({"purchases": "orders-lake"})))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 10, 15),)


def test_a_group_that_its_holder_gave_up_is_taken_over_once_its_batch_is_done() -> None:
    world = World()
    world.produce(10)
    first = pipeline(world)
    open_batch = planned(first)
    assert open_batch is not None
    others = MemoryDefinitions({"orders": "another-group", "purchases": "orders-lake"})
    with pytest.raises(WrongDefinitionError, match="group orders-lake is subscription orders's"):
        pipeline(world, "purchases", others).plan()
    with pytest.raises(WrongDefinitionError, match=r"batch of group orders-lake is open.*set consumer.group.id back"):
        pipeline(world, consumer={"group_id": "another-group"}).plan()
    assert deliver(first) is not None
    world.produce(5)
    batch = deliver(pipeline(world, "purchases", others))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 10, 15),)


def test_a_history_of_its_own_stays_behind_what_a_definition_takes_over() -> None:
    world = World()
    world.produce(10)
    other = {"consumer": {"group_id": "another-group"}}
    assert deliver(pipeline(world, "purchases", **other)) is not None
    world.kafka.expire()  # the doubles have one store, and orders-lake is another group
    assert deliver(pipeline(world)) is not None
    world.produce(2)
    batch = deliver(pipeline(world, "purchases"))
    assert batch is not None
    assert batch.ranges == (Range("orders", 0, 10, 12),)
    history = world.ledger.history("purchases", 9)
    assert [o.batch.group for o in history] == ["orders-lake", "orders-lake", "another-group"]


def test_no_step_touches_another_subscriptions_batch() -> None:
    world = World()
    world.topics.create("returns")
    world.produce(10)
    mine = pipeline(world)
    other = pipeline(world, "returns", consumer={"group_id": "returns-lake"})
    batch = planned(mine)
    assert batch is not None
    for step in (
        lambda: other.land(batch.id, 0),
        lambda: other.process(batch.id),
        lambda: other.receive(batch.id),
        lambda: other.settle(batch.id),
    ):
        with pytest.raises(StaleError, match=rf"batch {batch.id} is subscription orders's .*nothing was changed"):
            step()
    assert world.ledger.batch(batch.id) == batch
    assert mine.process(batch.id) is not None
    with pytest.raises(StaleError, match="is subscription orders's"):
        other.settle(batch.id)
    assert (world.kafka.positions[batch.ranges[0].at].offset, world.published()) == (0, [])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_another_cluster_is_refused_by_name_until_somebody_accepts_it(strategy: str) -> None:
    world = World()
    world.produce(10)
    first = pipeline(world, commit_strategy=strategy)
    assert run_batch(first, lambda _step: None).error is None
    if world.committed() == 0:
        first.commit_open()
    another = World()
    another.topics.cluster_id = "another"
    another.produce(30)
    another.ledger, another.lake, another.landing = world.ledger, world.lake, world.landing
    another.processor = world.processor
    moved = pipeline(another, commit_strategy=strategy)
    for _ in range(2):
        with pytest.raises(
            WrongDefinitionError, match=r"cluster, another, and .* read from cluster memory.*accept-cluster orders"
        ):
            moved.plan()
    assert another.committed() is None
    told = status_of(moved, 9)
    assert [(each.verdict, each.since is not None) for each in told.findings] == [(Verdict.STALLED, True)]
    assert "another Kafka cluster, another, and the group was read from cluster memory" in told.findings[0].reason
    assert "`tidegate offsets accept-cluster orders`" in told.findings[0].action
    accept_cluster(moved, "ada")
    run = run_batch(moved, lambda _step: None)
    assert run.error is None
    assert run.batch is not None
    assert run.batch.ranges == (Range("orders", 0, 0, 30),)
    assert world.ledger.last_ends("orders", "orders-lake")
    with pytest.raises(WrongDefinitionError, match=r"cluster, memory, and .* read from cluster another"):
        first.plan()


def test_a_cluster_that_tells_no_id_is_not_refused() -> None:
    world = World()
    world.topics.cluster_id = None
    for _ in range(2):
        world.produce(10)
        assert deliver(pipeline(world)) is not None
    world.topics.cluster_id = "known now"
    world.produce(10)
    assert deliver(pipeline(world)) is not None
    assert world.published() == [(0, 10), (10, 20), (20, 30)]


def test_a_batch_of_the_other_cluster_is_not_committed_to_this_one() -> None:
    world = World()
    world.produce(10)
    first = pipeline(world, commit_strategy="manual")
    batch = run_batch(first, lambda _step: None).batch
    assert batch is not None
    world.topics.cluster_id = "another"
    with pytest.raises(WrongDefinitionError, match="another Kafka cluster"):
        first.commit_open()
    assert world.committed() == 0
    accepted = accept_cluster(first, "ada")
    assert accepted is not None
    assert (accepted.id, accepted.condition) == (batch.id, Outcome.ABANDONED)
    assert "ada" in (accepted.reason or "")


def test_what_landed_of_the_other_cluster_and_is_committed_there_still_reaches_the_lake() -> None:
    world = World()
    world.produce(10)
    first = pipeline(world, commit_strategy="on-receipt")
    batch = planned(first)
    assert batch is not None
    first.receive(batch.id)
    world.topics.cluster_id = "another"
    assert accept_cluster(first, "ada") is None
    run = run_batch(first, lambda _step: None)
    assert run.error is None
    assert run.batch is not None
    assert (run.batch.id, run.batch.condition) == (batch.id, Outcome.COMMITTED)
    assert world.published() == [(0, 10)]


@pytest.mark.parametrize("strategy", ["fail", "ignore", "dead-letter-queue"])
def test_a_batch_at_its_limit_that_is_planned_again_is_delivered_and_not_stuck(strategy: str) -> None:
    """Somebody accepts a cluster by mistake, points the connection back and accepts that one."""
    world = World()
    world.produce(10)
    world.topics.create("dead-letter-topic-orders")
    first = pipeline(world, failure_strategy=strategy, max_retries=0)
    batch = planned(first)
    assert batch is not None
    world.processor.failures.append("no memory")
    with pytest.raises(BatchFailedError, match="no memory"):
        first.process(batch.id)
    for cluster in ("another", "memory"):
        world.topics.cluster_id = cluster
        accept_cluster(first, "ada")
    run = run_batch(first, lambda _step: None)
    assert run.error is None
    assert run.batch is not None
    assert (run.batch.id, run.batch.condition) == (batch.id, Outcome.COMMITTED)
    assert world.published() == [(0, 10)]


def test_a_group_that_was_never_read_has_no_cluster_to_accept() -> None:
    with pytest.raises(StaleError, match="never read from any cluster: there is nothing to accept"):
        accept_cluster(World().pipeline(), "ada")


def test_a_store_that_drops_metadata_is_named_and_no_plan_goes_round_for_ever() -> None:
    world = World()
    world.kafka.keeps_metadata = False
    world.produce(10)
    with pytest.raises(WrongDefinitionError, match=r"keeps no metadata.*commit-strategy: checkpoint"):
        pipeline(world).plan()
    assert len(world.kafka.commits) < 20


def test_a_group_that_somebody_keeps_moving_is_named() -> None:
    world = World()
    world.produce(10)
    moved = pipeline(world)
    at = Range("orders", 0, 0, 0).at
    committed = world.kafka.committed

    def moving(partitions: Any) -> Any:
        world.kafka.reset({at: len(world.kafka.commits) % 7}, metadata="theirs")
        return committed(partitions)

    world.kafka.committed = moving  # type: ignore[method-assign] # somebody is faster each time
    with pytest.raises(StaleError, match=r"something changed at each of \d+ looks.*no other tool"):
        moved.plan()


def test_what_is_published_under_an_id_of_version_0_1_is_found_without_the_ledger() -> None:
    world = World()
    world.produce(10)
    first = pipeline(world, commit_strategy="manual")
    batch = run_batch(first, lambda _step: None).batch
    assert batch is not None
    old = batch.receipt.batch_after_in_0_1("orders", "orders-lake")
    published = world.lake.published_attempts.pop((OUTPUT, batch.id))
    manifest = replace(published.manifest, batch=replace(published.manifest.batch, id=old))
    world.lake.published_attempts[OUTPUT, old] = replace(published, manifest=manifest)
    world.lose_ledger()
    run = run_batch(pipeline(world), lambda _step: None)
    assert run.error is None
    assert (world.published(), world.committed()) == ([(0, 10)], 10)
