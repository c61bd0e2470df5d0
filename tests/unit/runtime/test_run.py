from world import World, planned

from tidegate.model.batch import Outcome
from tidegate.model.errors import LostDataError, StoppedError, UnavailableError
from tidegate.ports import Ledger
from tidegate.runtime.run import UNPROCESSED, run_batch
from tidegate.testing.effects import Effect, watched


def test_a_batch_goes_through_and_the_run_says_what_it_did() -> None:
    world = World()
    world.produce(3)
    said: list[str] = []
    run = run_batch(world.pipeline(), said.append)
    assert said == ["plan", "land", "process", "commit"] == list(run.seconds)
    assert (run.batch and run.batch.condition, run.deliveries, run.error) == (Outcome.COMMITTED, 1, None)
    assert run.to_json()["committed"] == {"orders-0": 3}


def test_a_run_whose_delivery_failed_says_that_it_looks_and_not_that_it_commits() -> None:
    world = World()
    world.produce(3)
    world.processor.failures.append("no memory")
    said: list[str] = []
    run = run_batch(world.pipeline(max_retries=0), said.append)
    assert isinstance(run.error, StoppedError)
    assert said == ["plan", "land", "process", UNPROCESSED]


def test_a_run_beside_a_delivery_that_is_under_way_says_of_none_that_it_failed() -> None:
    world = World()
    world.produce(3)
    pipeline = world.pipeline(max_retries=0)
    batch = planned(pipeline)
    assert batch is not None
    world.ledger.start_delivery(batch.id)
    said: list[str] = []
    run = run_batch(pipeline, said.append)
    assert "is under way" in str(run.error)
    assert said == ["plan", "land", "process", "the batch isn't processed: seeing what becomes of it"]


def test_nothing_to_read_says_why() -> None:
    run = run_batch(World().pipeline(poll_timeout_ms=1000), print)
    assert (run.batch, run.error, run.to_json()["why"]) == (None, None, "there is nothing to read")


def test_a_run_that_another_one_was_faster_than_has_nothing_to_do_and_says_so() -> None:
    world = World()
    world.produce(3)
    faster = []

    class Overtaken:
        def before(self, effect: Effect) -> None:
            if effect == Effect.of(Ledger.open) and not faster:
                faster.append(run_batch(world.pipeline(), print))

        def after(self, effect: Effect) -> None:
            """Nothing."""

    run = run_batch(watched(world.pipeline(), Overtaken()), print)
    assert [one.state for one in faster] == ["committed"]
    assert (run.batch, run.error, run.state) == (None, None, "nothing")
    assert run.why.startswith("another run of this subscription has gone on meanwhile")
    assert "nothing is lost" in run.why


def test_a_run_whose_batch_another_one_settles_before_it_is_processed_ends_well_and_says_so() -> None:
    world = World()
    world.produce(3)
    faster = []

    class Overtaken:
        def before(self, effect: Effect) -> None:
            if effect == Effect.of(Ledger.start_delivery) and not faster:
                faster.append(run_batch(world.pipeline(), print))

        def after(self, effect: Effect) -> None:
            """Nothing."""

    run = run_batch(watched(world.pipeline(), Overtaken()), print)
    assert [one.state for one in faster] == ["committed"]
    assert (run.state, run.error) == ("committed", None)
    assert run.why is not None
    assert run.why.startswith("another run of this subscription has settled this batch")


def test_an_error_stands_in_the_run_even_if_the_ledger_is_away_by_then() -> None:
    world = World()
    world.produce(3)

    class Away:
        gone = False

        def before(self, effect: Effect) -> None:
            self.gone |= effect == Effect.of(Ledger.start_delivery)
            if self.gone and effect.port == "ledger":
                raise UnavailableError("the ledger is away")

        def after(self, effect: Effect) -> None:
            """Nothing."""

    run = run_batch(watched(world.pipeline(), Away()), print)
    assert str(run.error) == "the ledger is away"
    assert run.to_json()["batch_id"] is not None


def test_a_run_that_is_refused_names_the_batch_that_stands_in_its_way() -> None:
    world = World()
    world.produce(3)
    world.processor.failures.append("no memory")
    stopping = run_batch(world.pipeline(max_retries=0), print).to_json()
    refused = run_batch(world.pipeline(max_retries=0), print)
    assert isinstance(refused.error, StoppedError)
    told = refused.to_json()
    assert (told["state"], told["batch_id"], told["delivery"]) == ("stopped", stopping["batch_id"], 1)


def test_an_error_before_there_is_a_batch_is_a_refusal_and_not_nothing_to_do() -> None:
    world = World()
    refused = run_batch(world.pipeline(consumer={"auto_offset_reset": "none"}), print)
    assert isinstance(refused.error, LostDataError)
    assert (refused.to_json()["state"], refused.to_json()["batch_id"]) == ("refused", None)
