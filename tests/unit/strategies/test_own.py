from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from definitions import subscription
from world import World, deliver

from tidegate.config import installed
from tidegate.config.property_types import FailureStrategyName
from tidegate.model.batch import Outcome, Resolution, State
from tidegate.model.errors import RecordsFailedError, WrongDefinitionError
from tidegate.model.records import Outgoing
from tidegate.strategies.failure import own
from tidegate.strategies.failure.ask import Ask
from tidegate.strategies.failure.fail import Fail
from tidegate.strategies.failure.ignore import Ignore
from tidegate.strategies.failure.registry import failure_strategy
from tidegate.strategies.failure.strategy import AtLimit


class Skips(Ignore):
    """The strategy of a package that is installed."""

    @classmethod
    def of(cls, _: Any) -> "Skips":
        return cls()


class Says(Ask):
    """One that begins as the class that it inherits from does."""


class Plain:
    """One that inherits nothing, and can't be begun with a subscription."""


class Breaks(Fail):
    """One with a mistake in each method."""

    def judge(self, *_: Any) -> None:
        raise KeyError("no such customer")

    def at_limit(self, *_: Any) -> AtLimit:
        return AtLimit(Resolution.RETRY_LATER, "perhaps later")

    def outgoing(self, *_: Any) -> Iterator[Outgoing]:
        yield from ()
        raise ZeroDivisionError("division by zero")


NAMES = {"my.skips": "Skips.of", "my.says": "Says", "my.breaks": "Breaks", "my.plain": "Plain", "my.gone": "Nothing"}


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {name: EntryPoint(name, f"{__name__}:{value}", installed.GROUP) for name, value in NAMES.items()}
    for module in (own, installed):
        monkeypatch.setattr(module, "installed_failure_strategies", lambda: points)
    monkeypatch.setattr("tidegate.config.property_types.installed_failure_strategies", lambda: points)


def test_one_that_is_installed_is_called_with_the_subscription_and_asked() -> None:
    world = World()
    world.produce(3)
    world.processor.failures = ["no rate"]
    pipeline = world.pipeline(failure_strategy="my.skips", max_retries=0)
    with pytest.raises(RecordsFailedError):
        deliver(pipeline)
    done = pipeline.settle(world.ledger.history("orders", 1)[0].batch.id)
    assert done is not None
    assert done.outcome is Outcome.IGNORED


@pytest.mark.parametrize("name", ["my.says", "my.breaks"])
def test_one_that_inherits_from_ours_is_registered_by_its_class_alone(name: str) -> None:
    assert failure_strategy(subscription(failure_strategy=name))


def test_one_that_cannot_be_begun_is_named_before_anything_is_read() -> None:
    world = World()
    world.produce(3)
    with pytest.raises(
        WrongDefinitionError, match=r"my\.plain failed: TypeError: Plain\(\) takes no arguments \(test_own:Plain\)"
    ):
        world.pipeline(failure_strategy="my.plain").plan()
    assert world.ledger.look("orders").open is None


def test_one_that_is_not_installed_is_named_with_the_remedy() -> None:
    with pytest.raises(
        WrongDefinitionError, match=r"unknown isn't installed.*subscription orders.*install its package"
    ):
        failure_strategy(subscription(failure_strategy="unknown"))


def test_one_that_cannot_be_imported_is_named_with_the_reason() -> None:
    with pytest.raises(WrongDefinitionError, match=r"my\.gone failed: AttributeError: .*Nothing"):
        failure_strategy(subscription(failure_strategy="my.gone"))


def test_a_mistake_in_it_names_its_line_and_is_no_records_fault() -> None:
    strategy = failure_strategy(subscription(failure_strategy="my.breaks"))
    with pytest.raises(
        WrongDefinitionError, match=r"my\.breaks failed: KeyError: 'no such customer' \(.*test_own.py:\d+\)"
    ):
        strategy.judge(None, None)  # type: ignore[arg-type] # it looks at neither
    with pytest.raises(WrongDefinitionError, match=r"my\.breaks failed: ZeroDivisionError"):
        list(strategy.outgoing([], World().ledger.now()))


def test_a_state_that_no_strategy_can_choose_is_refused() -> None:
    world = World()
    world.produce(3)
    world.processor.failures = ["no rate"]
    pipeline = world.pipeline(failure_strategy="my.breaks", max_retries=0)
    with pytest.raises(RecordsFailedError):
        deliver(pipeline)
    batch = world.ledger.history("orders", 1)[0].batch
    with pytest.raises(
        WrongDefinitionError,
        match=r"decides retry-later for a batch.*: nothing was changed.*have its at_limit choose one",
    ):
        pipeline.settle(batch.id)
    assert world.ledger.batch(batch.id).state is State.FAILED


def test_a_definition_may_name_what_is_installed_and_learns_what_is() -> None:
    kind = FailureStrategyName(("fail", "ignore"))
    assert [kind.validate(name) for name in ("fail", "my.skips", "my.breaks")] == [None, None, None]
    installed_too = "my.breaks, my.gone, my.plain, my.says or my.skips"
    assert kind.validate("my.skip") == (
        "names a strategy that no installed package registers as an entry point of tidegate.failure_strategies: "
        f"install its package, or write fail, ignore, {installed_too} (did you mean my.skips?)"
    )
    assert kind.validate("fial") == f"must be fail, ignore, {installed_too} (did you mean fail?)"
    assert kind.validate(7) == "must be fail or ignore"


def test_only_names_with_a_dot_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint(name, "module:Name", installed.GROUP) for name in ("ignore", "mine", "my.own")]
    monkeypatch.undo()
    monkeypatch.setattr(installed, "entry_points", lambda group: points if group == installed.GROUP else [])
    installed.installed_failure_strategies.cache_clear()
    assert list(installed.installed_failure_strategies()) == ["my.own"]
    installed.installed_failure_strategies.cache_clear()
