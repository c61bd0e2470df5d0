"""The failure strategy that a definition names."""

from collections.abc import Callable, Mapping
from typing import Final

from tidegate.model.subscription import Subscription
from tidegate.strategies.failure.ask import Ask
from tidegate.strategies.failure.dead_letters import DeadLetters
from tidegate.strategies.failure.delayed_retry import DelayedRetry
from tidegate.strategies.failure.fail import Fail
from tidegate.strategies.failure.ignore import Ignore
from tidegate.strategies.failure.own import OwnFailureStrategy
from tidegate.strategies.failure.strategy import FailureStrategy

FAILURE_STRATEGIES: Final[Mapping[str, Callable[[Subscription], FailureStrategy]]] = {
    "fail": Fail.of,
    "ignore": Ignore.of,
    "dead-letter-queue": DeadLetters.of,
    "delayed-retry-topic": DelayedRetry.of,
    "ask": Ask.of,
}


def failure_strategy(subscription: Subscription) -> FailureStrategy:
    """The strategy, with its own properties. Raises WrongDefinitionError for one that isn't installed."""
    return FAILURE_STRATEGIES.get(subscription.failure_strategy, OwnFailureStrategy)(subscription)
