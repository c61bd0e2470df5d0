"""A failure strategy that somebody else's package has installed."""

import traceback
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, TypeVar

from tidegate.config.installed import GROUP, installed_failure_strategies
from tidegate.model.batch import Batch, Resolution
from tidegate.model.errors import TidegateError, WrongDefinitionError, location, message
from tidegate.model.manifest import Rejections
from tidegate.model.records import Dropped, Outgoing, Rejected
from tidegate.model.subscription import Subscription
from tidegate.strategies.failure.strategy import AtLimit, FailureStrategy

T = TypeVar("T")

_AT_LIMIT = (Resolution.STOP, Resolution.ASK, Resolution.SKIP, Resolution.DEAD_LETTER)


class OwnFailureStrategy:
    """Asks it, and takes a mistake of its code for no record's fault.

    Whatever it raises that isn't one of Tidegate's errors becomes a WrongDefinitionError, which names the line, and so
    does a batch's state that it can't choose: nothing is committed then, and no record is given up.
    """

    def __init__(self, subscription: Subscription) -> None:
        self._name = subscription.failure_strategy
        self._where = location(subscription=subscription.name)
        point = installed_failure_strategies().get(self._name)
        if point is None:
            raise WrongDefinitionError(
                message(
                    f"failure-strategy {self._name} isn't installed: no package here has an entry point of this "
                    f"name in the group {GROUP}",
                    self._where,
                    "install its package where Airflow runs, or choose another strategy",
                )
            )
        self._installed = point.value
        self._strategy: FailureStrategy = self._asked(lambda: self._begun(point.load(), subscription))

    @staticmethod
    def _begun(installed: Any, subscription: Subscription) -> FailureStrategy:
        """By `of` where a class has it, as those that are built in do; any other callable is called itself."""
        strategy: FailureStrategy = getattr(installed, "of", installed)(subscription)
        return strategy

    def judge(self, batch: Batch, rejections: Rejections) -> None:
        """See FailureStrategy."""
        self._asked(lambda: self._strategy.judge(batch, rejections))

    def at_limit(self, batch: Batch) -> AtLimit:
        """See FailureStrategy."""
        found = self._asked(lambda: self._strategy.at_limit(batch))
        if found.resolution not in _AT_LIMIT:
            raise WrongDefinitionError(
                message(
                    f"failure-strategy {self._name} decides {found.resolution} for a batch that failed for the last "
                    "time: nothing was changed",
                    batch,
                    f"have its at_limit choose one of {', '.join(_AT_LIMIT)}",
                )
            )
        return found

    def outgoing(self, rejected: Iterable[Rejected], now: datetime) -> Iterator[Outgoing | Dropped]:
        """See FailureStrategy."""
        outgoing = iter(self._asked(lambda: self._strategy.outgoing(rejected, now)))
        while (one := self._asked(lambda: next(outgoing, None))) is not None:
            yield one

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except TidegateError:
            raise
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = self._installed if frame.filename == __file__ else f"{frame.filename}:{frame.lineno}"
            why = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
            raise WrongDefinitionError(
                message(
                    f"failure-strategy {self._name} failed: {why} ({where}): nothing was changed",
                    self._where,
                    "correct it; the next run asks it again",
                )
            ) from error
