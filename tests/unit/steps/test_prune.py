"""Prune: what goes and what stays, and that whoever runs beside it, before it or after it loses and doubles nothing."""

from collections.abc import Collection, Mapping
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world import Crash, World, deliver, planned

from tidegate.model.batch import Batch, Outcome
from tidegate.model.errors import BatchFailedError, UnavailableError, WrongDefinitionError
from tidegate.model.offsets import TopicPartition
from tidegate.ports import Ledger
from tidegate.steps.prune import Pruned, prune
from tidegate.testing.effects import Effect, Watched

DAY_MS = 86_400_000
PARTITION = TopicPartition("orders", 0)


class BeforeForgetting:
    """Ends the process between the files and the rows of a batch."""

    def before(self, effect: Effect) -> None:
        if effect == Effect.of(Ledger.forget):
            raise Crash

    def after(self, effect: Effect) -> None:
        """Goes on."""


def pruned(world: World, retention_ms: int = DAY_MS, *, dry_run: bool = False) -> Pruned:
    done = Pruned()
    prune("orders", retention_ms, done, landing=world.landing, ledger=world.ledger, dry_run=dry_run)
    return done


def delivered(world: World, count: int = 2, **definition: object) -> Batch:
    world.produce(count)
    batch = deliver(world.pipeline(**definition))
    assert batch is not None
    return batch


def a_day_later(world: World) -> None:
    world.clock.wait(timedelta(days=1, seconds=1).total_seconds())


def history(world: World) -> list[str]:
    return [entry.batch.id for entry in reversed(world.ledger.history("orders", 99))]


def test_old_landings_and_rows_go_and_the_lake_stays() -> None:
    world = World()
    old = [delivered(world) for _ in range(3)]
    first = world.ledger.now()
    a_day_later(world)
    new = [delivered(world) for _ in range(2)]
    lake = world.published()
    would = pruned(world, dry_run=True)
    assert history(world) == [batch.id for batch in (*old, *new)]
    done = pruned(world)
    assert done == would
    assert (done.batches, done.files, done.oldest, done.newest) == (3, 6, first, first)
    assert done.bytes > 3 * 2 * len(b"value")
    assert history(world) == [batch.id for batch in new]
    assert set(world.landing.files) == {file.uri for batch in new for file in batch.files}
    assert len(world.landing.manifests) == 2
    assert world.published() == lake
    assert pruned(world) == Pruned()
    assert (delivered(world).ranges[0].start, world.committed()) == (10, 12)


def test_a_retention_of_0_keeps_everything() -> None:
    world = World()
    for _ in range(2):
        delivered(world)
    a_day_later(world)
    assert pruned(world, 0) == Pruned()
    assert len(history(world)) == 2


def test_whoever_is_killed_between_files_and_rows_leaves_rows_and_the_next_one_finishes() -> None:
    world = World()
    batches = [delivered(world) for _ in range(3)]
    a_day_later(world)
    watched = Watched("ledger", world.ledger, BeforeForgetting())
    with pytest.raises(Crash):
        prune("orders", DAY_MS, Pruned(), landing=world.landing, ledger=watched, dry_run=False)
    assert history(world) == [batch.id for batch in batches]
    assert batches[0].files[0].uri not in world.landing.files
    done = pruned(world)
    assert (done.batches, done.files) == (2, 2)
    assert history(world) == [batches[2].id]


def test_what_a_landing_does_not_give_up_keeps_its_rows() -> None:
    world = World()
    batches = [delivered(world) for _ in range(2)]
    a_day_later(world)
    world.landing.writable = False
    with pytest.raises(UnavailableError):
        pruned(world)
    assert history(world) == [batch.id for batch in batches]


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_batch_whose_connection_is_gone_keeps_its_rows_and_no_others(
    monkeypatch: pytest.MonkeyPatch, *, dry_run: bool
) -> None:
    world = World()
    batches = [delivered(world) for _ in range(4)]
    a_day_later(world)
    name, gone = ("stored" if dry_run else "discard"), [batches[0].id, batches[1].id]
    reached = getattr(world.landing, name)

    def by_connection(subscription: str, batch_id: str, files: Collection[str]) -> Mapping[str, int]:
        if batch_id in gone:
            raise WrongDefinitionError("there is no Airflow connection store")
        found: Mapping[str, int] = reached(subscription, batch_id, files)
        return found

    monkeypatch.setattr(world.landing, name, by_connection)
    done = pruned(world, dry_run=dry_run)
    assert (done.batches, done.kept) == (1, {"there is no Airflow connection store": gone})
    assert history(world) == [each.id for each in (batches if dry_run else (*batches[:2], batches[3]))]


def test_an_open_batch_is_delivered_again_from_its_landing_however_old_it_is() -> None:
    world = World()
    for _ in range(2):
        delivered(world)
    world.produce(2)
    batch = planned(world.pipeline())
    assert batch is not None
    a_day_later(world)
    assert pruned(world).batches == 1
    assert {file.uri for file in batch.files} <= set(world.landing.files)
    again = deliver(world.pipeline())
    assert again is not None
    assert (again.id, world.published()) == (batch.id, [(0, 2), (2, 4), (4, 6)])


@pytest.mark.parametrize("strategy", ["manual", "on-next-poll"])
def test_what_waits_for_its_commit_stays_until_that_is_done_and_old(strategy: str) -> None:
    world = World()
    delivered(world)
    world.produce(2)
    pipeline = world.pipeline(commit_strategy=strategy)
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    pipeline.settle(batch.id)
    a_day_later(world)
    assert pruned(world) == Pruned()
    pipeline.commit_open()
    delivered(world)
    assert pruned(world).batches == 1
    assert batch.id in history(world)
    a_day_later(world)
    assert pruned(world).batches == 1
    assert batch.id not in history(world)


def test_a_batch_whose_offsets_were_committed_on_receipt_stays_until_it_is_published() -> None:
    world = World()
    delivered(world)
    world.produce(2)
    pipeline = world.pipeline(commit_strategy="on-receipt")
    batch = planned(pipeline)
    assert batch is not None
    pipeline.receive(batch.id)
    a_day_later(world)
    pruned(world)
    assert batch.id in history(world)
    pipeline.process(batch.id)
    published = pipeline.settle(batch.id)
    assert published is not None
    assert published.outcome is Outcome.COMMITTED


@pytest.mark.parametrize("strategy", ["ignore", "dead-letter-queue"])
def test_a_batch_that_failed_for_good_stays_with_its_landing(strategy: str) -> None:
    world = World()
    world.topics.create("dead-letter-topic-orders", 1)
    world.produce(2)
    pipeline = world.pipeline(failure_strategy=strategy, max_retries=0)
    batch = planned(pipeline)
    assert batch is not None
    world.processor.failures.append("a record is wrong")
    with pytest.raises(BatchFailedError):
        pipeline.process(batch.id)
    failed = pipeline.settle(batch.id)
    assert failed is not None
    for _ in range(2):
        delivered(world)
    a_day_later(world)
    assert pruned(world).batches == 1
    assert failed.id in history(world)
    assert {file.uri for file in failed.files} <= set(world.landing.files)


def test_batches_of_ignore_which_nobody_commits_go_once_they_are_published() -> None:
    world = World()
    world.offsets_of_ignore()
    for _ in range(3):
        delivered(world, commit_strategy="ignore", cursor=None)
    a_day_later(world)
    assert pruned(world).batches == 2


def test_a_group_that_is_moved_back_to_before_what_was_forgotten_doubles_nothing() -> None:
    """As a committer without a fence does, that slept."""
    world = World()
    delivered(world)
    position = world.kafka.positions[PARTITION]
    for _ in range(3):
        delivered(world)
    a_day_later(world)
    assert pruned(world).batches == 3
    lake = world.published()
    world.kafka.positions[PARTITION] = position
    for _ in range(5):
        deliver(world.pipeline())
    assert (world.published(), world.committed()) == (lake, 8)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["deliver", "plan", "prune", "dry", "day", "lose"]), max_size=25))
def test_runs_and_prunes_in_any_order_deliver_each_record_once(acts: list[str]) -> None:
    world = World()
    total = 0
    for act in acts:
        match act:
            case "deliver":
                world.produce(2)
                total += 2
                deliver(world.pipeline())
            case "plan":
                world.produce(1)
                total += 1
                planned(world.pipeline())
            case "prune" | "dry":
                before = history(world), dict(world.landing.files)
                pruned(world, dry_run=act == "dry")
                assert act == "prune" or before == (history(world), world.landing.files)
            case "day":
                a_day_later(world)
            case "lose":
                world.lose_ledger()
    while deliver(world.pipeline()) is not None:
        pass
    read = [offset for start, end in world.published() for offset in range(start, end)]
    assert read == list(range(total))
    assert (world.committed() or 0) == total
    named = {file.uri for each in world.ledger.history("orders", 99) for file in each.batch.files}
    assert {*named} <= set(world.landing.files)
