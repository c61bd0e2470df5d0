"""Kafka is asked here, in a few threads of the API server, so that no page waits for it longer than it says."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYetError
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Any, Final, TypeVar

from tidegate.config.settings import Settings
from tidegate.model.errors import TidegateError
from tidegate.monitoring.observing import Refused, observe
from tidegate.runtime.definitions import AllDefinitions
from tidegate_airflow.connections import DatabaseConnections
from tidegate_airflow.rest.refused import RefusedError

log = logging.getLogger(__name__)

FRESH: Final = timedelta(seconds=30)
"""What was seen so recently is looked at no further."""
ANSWER_SECONDS: Final = 15.0
"""As long as somebody who asks waits for Kafka."""
_MOST: Final = 4
_Answer = TypeVar("_Answer")


def look(name: str) -> object:
    """Observe a subscription, as this process is set up."""
    settings = Settings.from_environment(os.environ)
    return observe(name, settings, DatabaseConnections(), _refused(settings, time.monotonic() // FRESH.total_seconds()))


@lru_cache(maxsize=1)
def _refused(settings: Settings, _time: float) -> Refused:
    """Kept for a time, as it reads all definitions."""
    return AllDefinitions(settings).refused()


class Background:
    """So many threads at most, each for one question; what is under way isn't asked again meanwhile.

    They end with the process: a broker that hangs holds neither it nor a page.
    """

    def __init__(self, observe_one: Callable[[str], object] = look, most: int = _MOST) -> None:
        self._observe = observe_one
        self._most = most
        self._lock = threading.Lock()
        self._under_way: dict[tuple[str, ...], Future[Any]] = {}
        self._tried: dict[str, float] = {}

    def refresh(self, seen: Iterable[tuple[str, datetime | None]], now: datetime) -> None:
        """Look again at those that were seen too long ago, or never: the oldest first, as many as there are threads.

        `seen` has each subscription with the instant at which it was last seen. Returns at once.
        """
        old = [(at, name) for name, at in seen if (at is None or now - at > FRESH) and not self._is_tried(name)]
        for _, name in sorted(old, key=lambda each: (each[0] is not None, each[0] or now, each[1])):
            if self.begin(("observe", name), partial(self._look, name)) is None:
                return

    def ask(self, key: tuple[str, ...], question: Callable[[], _Answer], seconds: float = ANSWER_SECONDS) -> _Answer:
        """The answer to a question that may take its time. Raises RefusedError where it takes more than it may."""
        asked = self.begin(key, question)
        if asked is None:
            raise RefusedError(503, "Kafka is being asked much just now: try again in a moment")
        try:
            answer: _Answer = asked.result(seconds)
        except NotYetError:
            why = "the brokers don't answer, or there is much to read, for which the command line takes its time"
            raise RefusedError(504, f"there is no answer after {seconds:.0f} s: {why}") from None
        return answer

    def begin(self, key: tuple[str, ...], question: Callable[[], _Answer]) -> "Future[_Answer] | None":
        """What the answer will be, also of the same question that is under way; None where no thread is free."""
        with self._lock:
            if key in self._under_way:
                return self._under_way[key]
            if len(self._under_way) >= self._most:
                return None
            asked = self._under_way[key] = Future()
        threading.Thread(target=self._answer, args=(key, question, asked), name="tidegate-page", daemon=True).start()
        return asked

    def _answer(self, key: tuple[str, ...], question: Callable[[], _Answer], asked: "Future[_Answer]") -> None:
        try:
            answer = question()
        except BaseException as error:  # noqa: BLE001 (whoever waits is told)
            self._end(key)
            asked.set_exception(error)
        else:
            self._end(key)
            asked.set_result(answer)

    def _end(self, key: tuple[str, ...]) -> None:
        with self._lock:
            self._under_way.pop(key, None)

    def _look(self, name: str) -> None:
        self._tried[name] = time.monotonic()
        try:
            self._observe(name)
        except TidegateError as error:
            log.warning("subscription %s can't be looked at: %s", name, error)
        except Exception:
            log.exception("subscription %s can't be looked at", name)

    def _is_tried(self, name: str) -> bool:
        return time.monotonic() - self._tried.get(name, float("-inf")) < FRESH.total_seconds()
