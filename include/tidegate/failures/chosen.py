"""The failure strategy that a definition names."""

from typing import assert_never

from tidegate.failures.ask import Ask
from tidegate.failures.dead_letters import DeadLetters
from tidegate.failures.delayed_retry import DelayedRetry
from tidegate.failures.fail import Fail
from tidegate.failures.ignore import Ignore
from tidegate.failures.verdict import FailureStrategy
from tidegate.subscription import Subscription


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
