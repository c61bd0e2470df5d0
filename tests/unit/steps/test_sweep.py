import logging
import uuid

import pytest
from world import OUTPUT, World, deliver, planned

from tidegate.model.batch import Batch
from tidegate.model.errors import LostDataError, UnavailableError
from tidegate.model.manifest import Counts
from tidegate.model.subscription import TopicNames
from tidegate.ports import Lake, Landing, Ledger, OffsetStore
from tidegate.steps.sweep import sweep
from tidegate.testing.effects import Effect, Method, watched
from tidegate.testing.lake import StagedAttempt


def delivered() -> tuple[World, Batch]:
    """A world with one batch, which is committed."""
    world = World()
    world.produce(2)
    batch = deliver(world.pipeline())
    assert batch is not None
    return world, batch


def leave(world: World, batch_id: str) -> str:
    """What a zombie leaves: a landed file that nobody names, and a staged attempt."""
    uri = f"memory:///landing/orders/{batch_id}/member-0/{uuid.uuid4().hex}-0.parquet"
    world.landing.files[uri] = ()
    stage(world, f"{batch_id}-{uuid.uuid4().hex}")
    return uri


def stage(world: World, name: str) -> None:
    world.lake.stage(f"{OUTPUT}/_staging/{name}", "a", StagedAttempt(None, Counts(0, 0)))


def staged(world: World) -> set[str]:
    """The names of what is staged or set aside, whoever made it."""
    return {*(uri.rpartition("/")[2] for uri in world.lake.staged), *world.lake.abandoned}


def swept(world: World, newest: int = 20) -> None:
    sweep("orders", OUTPUT, newest, landing=world.landing, lake=world.lake, ledger=world.ledger)


def test_what_late_writers_left_of_closed_batches_goes_and_what_the_ledger_names_stays() -> None:
    world = World()
    batches = []
    for _ in range(3):
        world.produce(2)
        batch = deliver(world.pipeline())
        assert batch is not None
        batches.append(batch)
    left = [leave(world, batch.id) for batch in batches]
    named = [file.uri for batch in batches for file in batch.files]
    swept(world, newest=2)
    assert set(world.landing.files) == {*named, left[0]}
    assert staged(world) == set()
    swept(world)
    assert set(world.landing.files) == set(named)


def test_what_late_writers_left_under_the_name_that_the_subscription_had_goes() -> None:
    world, batch = delivered()
    left = leave(world, batch.id)
    world.ledger.take_over_group("renamed", batch.group, "orders")
    sweep("renamed", OUTPUT, 20, landing=world.landing, lake=world.lake, ledger=world.ledger)
    assert left not in world.landing.files
    assert {file.uri for file in batch.files} <= world.landing.files.keys()


def test_nothing_of_an_open_batch_goes() -> None:
    world = World()
    world.produce(2)
    batch = planned(world.pipeline())
    assert batch is not None
    world.pipeline().process(batch.id)
    left = leave(world, batch.id)
    swept(world)
    assert left in world.landing.files
    assert {name.partition("-")[0] for name in staged(world)} == {batch.id}


def test_nothing_of_a_batch_that_is_opened_meanwhile_goes() -> None:
    world, first = delivered()
    leave(world, first.id)
    world.produce(2)

    class Opening:
        def before(self, effect: Effect) -> None:
            if effect == Effect.of(Ledger.outcomes) and world.ledger.look("orders").open is None:
                batch = planned(world.pipeline())
                assert batch is not None
                world.pipeline().process(batch.id)

        def after(self, effect: Effect) -> None:
            """Nothing."""

    seen = watched(world.pipeline(), Opening())
    sweep("orders", OUTPUT, 20, landing=seen.landing, lake=seen.lake, ledger=seen.ledger)
    batch = world.ledger.look("orders").open
    assert batch is not None
    assert world.pipeline().settle(batch.id) is not None
    assert world.published() == [(0, 2), (2, 4)]


def test_what_cannot_be_cleaned_now_is_left_to_the_next_sweep() -> None:
    world, batch = delivered()
    left = leave(world, batch.id)

    class Away:
        def before(self, effect: Effect) -> None:
            if effect == Effect.of(Landing.data_files):
                raise UnavailableError("the landing is away")

        def after(self, effect: Effect) -> None:
            """Nothing."""

    seen = watched(world.pipeline(), Away())
    sweep("orders", OUTPUT, 20, landing=seen.landing, lake=seen.lake, ledger=seen.ledger)
    assert left in world.landing.files
    swept(world)
    assert left not in world.landing.files


class Raising:
    """At an effect, the world raises what no port is to raise."""

    def __init__(self, method: Method, error: Exception) -> None:
        self._effect = Effect.of(method)
        self._error = error

    def before(self, effect: Effect) -> None:
        if effect == self._effect:
            raise self._error

    def after(self, effect: Effect) -> None:
        """Nothing."""


def ours() -> str:
    """A batch id of our own form, of which nobody has heard."""
    return "b" + uuid.uuid4().hex[:20]


def test_folders_that_are_not_ours_stay() -> None:
    world, batch = delivered()
    strange = [
        "my-notes",
        "2024-05-01",
        f"{batch.id}-notes",
        f"{batch.id}-{uuid.uuid4().hex}-copy",
        f"x{batch.id}-{uuid.uuid4().hex}",
        f"{ours()}-{uuid.uuid4().hex}",
    ]
    aside = ["old-results", f"{batch.id}-{uuid.uuid4().hex}", f"{ours()}-{uuid.uuid4().hex}-0a1b2c3d"]
    world.lake.abandoned += aside
    for name in strange:
        stage(world, name)
    leave(world, batch.id)
    world.lake.abandoned.append(f"{batch.id}-{uuid.uuid4().hex}-0a1b2c3d")
    swept(world)
    assert staged(world) == {*strange, *aside}


def test_landed_files_that_are_not_ours_stay() -> None:
    world, batch = delivered()
    late = leave(world, batch.id)
    theirs = f"memory:///landing/orders/{batch.id}/member-0/copy-of-the-first.parquet"
    world.landing.files[theirs] = ()
    swept(world)
    assert theirs in world.landing.files
    assert late not in world.landing.files


def test_what_is_left_of_a_batch_that_only_the_lake_knows_goes_and_an_open_one_of_another_subscription_stays() -> None:
    world, batch = delivered()
    world.lose_ledger()
    leave(world, batch.id)
    world.topics.create("others", 1)
    world.produce(2, topic="others")
    other = planned(world.pipeline(name="others", topics=TopicNames(("others",))))
    assert other is not None
    leave(world, other.id)
    swept(world)
    assert {name.partition("-")[0] for name in staged(world)} == {other.id}


def test_a_folder_in_a_batchs_place_keeps_that_batch_alone_from_being_swept() -> None:
    world, batch = delivered()
    leave(world, batch.id)
    strange = f"{ours()}-{uuid.uuid4().hex}"
    stage(world, strange)
    seen = watched(world.pipeline(), Raising(Lake.published, LostDataError("it holds something else")))
    sweep("orders", OUTPUT, 20, landing=seen.landing, lake=seen.lake, ledger=seen.ledger)
    assert staged(world) == {strange}


@pytest.mark.parametrize(
    "error", [OSError("no such device"), UnavailableError("away"), RuntimeError("what"), LostDataError("x")]
)
@pytest.mark.parametrize("method", [Lake.staged_folders, Lake.remove_staged, Landing.remove, Landing.data_files])
def test_whatever_a_sweep_meets_the_commit_stands(
    method: Method, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    world, first = delivered()
    leave(world, first.id)
    world.produce(2)
    planned_next = planned(world.pipeline())
    assert planned_next is not None
    world.pipeline().process(planned_next.id)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        batch = watched(world.pipeline(), Raising(method, error)).settle(planned_next.id)
    assert batch is not None
    assert (batch.condition, world.committed()) == ("committed", 4)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(error) in caplog.text
    swept(world)
    assert staged(world) == set()


def test_the_fence_is_given_back_before_the_sweep() -> None:
    world = World()
    world.produce(2)
    effects: list[Effect] = []

    class Noting:
        def before(self, effect: Effect) -> None:
            effects.append(effect)

        def after(self, effect: Effect) -> None:
            """Nothing."""

    deliver(watched(world.pipeline(), Noting()))
    assert effects.index(Effect.close_of(OffsetStore.fence)) < effects.index(Effect.of(Lake.staged_folders))
    assert effects.count(Effect.of(Lake.staged_folders)) == 1
