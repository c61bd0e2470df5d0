"""Every effect of the steps, one by one: a pipeline whose ports tell of each call before and after it happens.

What a step does to the world it does through its ports, so whoever watches them can stop a step between any two
effects: to let another one run, to end the process, or to lose an answer.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol, Self

from tidegate.ports import (
    Clock,
    Fence,
    Lake,
    Landing,
    LandingWriter,
    Ledger,
    OffsetStore,
    Processor,
    Reader,
    RecordSource,
    SchemaRegistry,
    StagedOutput,
    TableLog,
)
from tidegate.runtime.pipeline import Pipeline

_PORTS = ("source", "offsets", "landing", "lake", "staged", "ledger", "processor", "clock", "registry")
CONSTANT = frozenset({("source", "cluster_id"), ("lake", "staging_of"), ("log", "folder")})
"""Calls whose answer can't change between two effects: they are none."""

HELD = {
    ("offsets", "fence"): "fence",
    ("redrive_offsets", "fence"): "redrive_fence",
    ("landing", "writer"): "writer",
    ("source", "read"): "reader",
}
"""Calls of a port that give something to hold for a while, and what that is called."""

_NAMES = {
    RecordSource: "source",
    Reader: "reader",
    OffsetStore: "offsets",
    Fence: "fence",
    Landing: "landing",
    LandingWriter: "writer",
    Lake: "lake",
    StagedOutput: "staged",
    Ledger: "ledger",
    Processor: "processor",
    TableLog: "log",
    Clock: "clock",
    SchemaRegistry: "registry",
}
_NAME_OF = {port.__qualname__: name for port, name in _NAMES.items()}

Method = Callable[..., Any]
"""A port's method, as its protocol has it: `Ledger.open`."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One call of a port, or, for what is held for a while, its `open` and `close`: `fence.open`, `writer.close`."""

    port: str
    call: str

    @classmethod
    def of(cls, method: Method) -> Self:
        """A call of this method: `Effect.of(Ledger.open)`; where it gives something to hold, that this is opened.

        Raises KeyError if it isn't a method of a port that is watched.
        """
        owner, _, call = method.__qualname__.partition(".")
        port = _NAME_OF[owner]
        return cls(HELD[port, call], "open") if (port, call) in HELD else cls(port, call)

    @classmethod
    def close_of(cls, method: Method) -> Self:
        """The end of what this method gives to hold: `Effect.close_of(OffsetStore.fence)`."""
        return cls(cls.of(method).port, "close")

    def __str__(self) -> str:
        """`ledger.look`, `fence.commit`, `reader.next`."""
        return f"{self.port}.{self.call}"


effect_of = cache(Effect)
"""The one `Effect` of these names: the same few are asked for again and again."""


class Watcher(Protocol):
    """Is told of each effect; what it raises, the step sees in place of the answer."""

    def before(self, effect: Effect) -> None:
        """The effect is about to happen."""
        ...

    def after(self, effect: Effect) -> None:
        """It has happened, and the step doesn't know yet; not called when the effect itself raised."""
        ...


def watched(pipeline: Pipeline, watcher: Watcher) -> Pipeline:
    """The same pipeline, whose every effect `watcher` is told of."""
    ports: dict[str, Any] = {port: Watched(port, getattr(pipeline, port), watcher) for port in _PORTS}
    return replace(pipeline, **ports)


class Watched:
    """A port, or what one of them holds."""

    def __init__(self, port: str, real: Any, watcher: Watcher) -> None:
        self._port = port
        self._real = real
        self._watcher = watcher

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if not callable(found) or (self._port, name) in CONSTANT:
            return found
        if (self._port, name) in HELD:
            return self._holding(HELD[self._port, name], found)
        return self._told(name, found)

    def __iter__(self) -> Iterator[Any]:
        chunks = iter(self._real)
        following = self._told("next", lambda: next(chunks, None))
        while (chunk := following()) is not None:
            yield chunk

    def _told(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        effect = effect_of(self._port, name)

        def told(*args: Any, **kwargs: Any) -> Any:
            self._watcher.before(effect)
            answer = call(*args, **kwargs)
            self._watcher.after(effect)
            return answer

        return told

    def _holding(self, held: str, call: Callable[..., AbstractContextManager[Any]]) -> Callable[..., Any]:
        @contextmanager
        def holding(*args: Any, **kwargs: Any) -> Iterator[Any]:
            context = call(*args, **kwargs)
            enter = Watched(held, self._real, self._watcher)._told("open", context.__enter__)  # noqa: SLF001 (its own)
            inner = enter()
            try:
                yield Watched(held, inner, self._watcher)
            except BaseException as error:
                if not context.__exit__(type(error), error, error.__traceback__):
                    raise
            else:
                Watched(held, self._real, self._watcher)._told("close", context.__exit__)(None, None, None)  # noqa: SLF001

        return holding
