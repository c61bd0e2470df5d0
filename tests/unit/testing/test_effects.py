"""A watched pipeline tells of every effect, and works as if nobody watched."""

import pytest
from world import World, deliver

from tidegate.model.batch import Outcome
from tidegate.ports import Fence, Landing, Ledger, OffsetStore, Outbox
from tidegate.testing.effects import Effect, Method, watched


class Listener:
    """Notes what it is told; raises after the effect named `at`."""

    def __init__(self, at: str = "") -> None:
        self.at = at
        self.told: list[str] = []
        self.begun: list[str] = []

    def before(self, effect: Effect) -> None:
        self.begun.append(str(effect))

    def after(self, effect: Effect) -> None:
        self.told.append(str(effect))
        if str(effect) == self.at:
            raise ConnectionError(self.at)


def test_a_batch_goes_through_and_each_of_its_effects_is_told() -> None:
    world = World()
    world.produce(3)
    listener = Listener()
    batch = deliver(watched(world.pipeline(), listener))
    assert batch is not None
    assert batch.outcome is Outcome.COMMITTED
    assert listener.begun == listener.told
    order = ["offsets.committed", "ledger.open", "reader.open", "reader.next", "writer.close"]
    order += ["ledger.landed", "processor.run", "fence.open", "lake.publish", "fence.commit", "fence.close"]
    assert [effect for effect in dict.fromkeys(reversed(listener.told)) if effect in order][::-1] == order


def test_a_lost_answer_is_the_steps_problem_though_the_effect_happened() -> None:
    world = World()
    world.produce(3)
    with pytest.raises(ConnectionError):
        deliver(watched(world.pipeline(), Listener(at="fence.commit")))
    assert world.committed() is not None


def test_what_is_held_is_closed_when_the_step_fails() -> None:
    world = World()
    world.produce(3)
    listener = Listener(at="reader.next")
    with pytest.raises(ConnectionError):
        deliver(watched(world.pipeline(), listener))
    assert "writer.close" not in listener.begun
    assert world.landing.files == {}


def test_an_effect_is_named_by_the_method_of_its_port() -> None:
    methods = [Ledger.open, Fence.commit, OffsetStore.fence, Landing.writer]
    assert [str(Effect.of(method)) for method in methods] == [
        "ledger.open",
        "fence.commit",
        "fence.open",
        "writer.open",
    ]
    assert str(Effect.close_of(OffsetStore.fence)) == "fence.close"


@pytest.mark.parametrize("method", [Outbox.send, World.produce])
def test_what_no_watched_port_has_is_no_effect(method: Method) -> None:
    with pytest.raises(KeyError):
        Effect.of(method)
