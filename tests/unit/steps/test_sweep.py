from world import OUTPUT, World, deliver, planned

from tidegate.errors import UnavailableError
from tidegate.manifest import Counts
from tidegate.steps.sweep import sweep
from tidegate.testing.effects import Effect, watched
from tidegate.testing.lake import StagedAttempt


def leave(world: World, batch_id: str) -> str:
    """What a zombie leaves: a landed file that nobody names, and a staged attempt."""
    uri = f"memory:///landing/orders/{batch_id}/member-0/zombie.parquet"
    world.landing.files[uri] = ()
    world.lake.stage(f"{OUTPUT}/_staging/{batch_id}-zombie", "a", StagedAttempt(None, Counts(0, 0)))
    return uri


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
    assert world.lake.staged_batches(OUTPUT) == frozenset()
    swept(world)
    assert set(world.landing.files) == set(named)


def test_nothing_of_an_open_batch_goes() -> None:
    world = World()
    world.produce(2)
    batch = planned(world.pipeline())
    assert batch is not None
    world.pipeline().process(batch.id)
    left = leave(world, batch.id)
    swept(world)
    assert left in world.landing.files
    assert world.lake.staged_batches(OUTPUT) == {batch.id}


def test_nothing_of_a_batch_that_is_opened_meanwhile_goes() -> None:
    world = World()
    world.produce(2)
    deliver(world.pipeline())
    world.produce(2)

    class Opening:
        def before(self, effect: Effect) -> None:
            if str(effect) == "ledger.look" and world.ledger.look("orders").open is None:
                batch = planned(world.pipeline())
                assert batch is not None
                world.pipeline().process(batch.id)

        def after(self, effect: Effect) -> None:
            """Nothing."""

    seen = watched(world.pipeline(), Opening())
    sweep("orders", OUTPUT, 20, landing=seen.landing, lake=seen.lake, ledger=seen.ledger)
    batch = world.ledger.look("orders").open
    assert batch is not None
    assert world.pipeline().commit(batch.id) is not None
    assert world.published() == [(0, 2), (2, 4)]


def test_what_cannot_be_cleaned_now_is_left_to_the_next_sweep() -> None:
    world = World()
    world.produce(2)
    batch = deliver(world.pipeline())
    assert batch is not None
    left = leave(world, batch.id)

    class Away:
        def before(self, effect: Effect) -> None:
            if str(effect) == "landing.data_files":
                raise UnavailableError("the landing is away")

        def after(self, effect: Effect) -> None:
            """Nothing."""

    seen = watched(world.pipeline(), Away())
    sweep("orders", OUTPUT, 20, landing=seen.landing, lake=seen.lake, ledger=seen.ledger)
    assert left in world.landing.files
    swept(world)
    assert left not in world.landing.files
