"""The failure strategy that a definition names."""

from typing import assert_never

from tidegate.model.subscription import Subscription
from tidegate.strategies.failure.ask import Ask
from tidegate.strategies.failure.dead_letters import DeadLetters
from tidegate.strategies.failure.delayed_retry import DelayedRetry
from tidegate.strategies.failure.fail import Fail
from tidegate.strategies.failure.ignore import Ignore
from tidegate.strategies.failure.verdict import FailureStrategy


def failure_strategy(subscription: Subscription) -> FailureStrategy:
    """The strategy, with its own properties."""
    match subscription.failure_strategy:
        case "fail":
            return Fail()
        case "ignore":
            return Ignore()
        case "dead-letter-queue":
            return DeadLetters.of(subscription)
        case "delayed-retry-topic":
            return DelayedRetry.of(subscription)
        case "ask":
            return Ask()
        case _:
            assert_never(subscription.failure_strategy)
