"""Ports whose every call is performed by somebody else, who may know the answer from before."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Any, Protocol

from simulation.acknowledged import Settled, pending_acks, told
from tidegate.testing.effects import CONSTANT, HELD, Effect, effect_of

_STREAMED = frozenset({("landing", "records"), ("lake", "rejected"), ("staged", "rejected_by"), ("letters", "read")})


class Performer(Protocol):
    """Performs effects; once dead, nothing that is unwound does anything any more."""

    dead: bool

    def perform(self, effect: Effect, call: Callable[[], Any], args: tuple[Any, ...]) -> Any:
        """Make the call, or give the answer that it had before."""
        ...


class Kept:
    """A port whose answers are kept, or what one of them holds."""

    def __init__(self, port: str, real: Any, life: Performer) -> None:
        self._port = port
        self._real = real
        self._life = life

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if not callable(found) or (self._port, name) in CONSTANT:
            return found
        if (self._port, name) in HELD:
            held = HELD[self._port, name]
            return lambda *args, **kwargs: _Holding(held, found(*args, **kwargs), self._life)
        effect = effect_of(self._port, name)
        if str(effect) == "landing.pending_acks":
            return lambda *args: pending_acks(self._life.perform(effect, lambda: told(found(*args)), args))
        if str(effect) == "staged.read_acks":
            return partial(self._take, effect, found)
        if (self._port, name) in _STREAMED:
            return lambda *args: iter(self._life.perform(effect, lambda: tuple(found(*args)), args))
        return lambda *args, **kwargs: self._perform(effect, found, args, kwargs)

    def _perform(self, effect: Effect, found: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """What is given one by one is taken whole, so that it can be told and hashed."""
        args = tuple([_whole(each) for each in given])
        kwargs = {name: _whole(each) for name, each in named.items()}
        return self._life.perform(effect, lambda: found(*args, **kwargs), (*args, *kwargs.values()))

    def _take(self, effect: Effect, found: Callable[..., Any], file: str, into: Any) -> None:
        """What is acknowledged is entered by each life of a runner anew: its own gathering is no part of the world."""
        self._life.perform(effect, lambda: Settled.taken(found, file, into), (file,)).enter(into)

    def __iter__(self) -> "Kept":
        return Kept(self._port, iter(self._real), self._life)

    def __next__(self) -> Any:
        chunk = self._life.perform(effect_of(self._port, "next"), lambda: next(self._real, None), ())
        if chunk is None:
            raise StopIteration
        return chunk


class _Holding:
    """A context of a port, whose opening and closing are effects."""

    def __init__(self, held: str, context: AbstractContextManager[Any], life: Performer) -> None:
        self._held = held
        self._context = context
        self._life = life
        self._is_entered = False

    def __enter__(self) -> Kept:
        return Kept(self._held, self._life.perform(effect_of(self._held, "open"), self._enter, ()), self._life)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if error is not None:
            return False if self._life.dead else self._exit(kind, error, trace)
        close: bool | None = self._life.perform(
            effect_of(self._held, "close"), lambda: self._exit(None, None, None), ()
        )
        return close

    def _enter(self) -> Any:
        self._is_entered = True
        return self._context.__enter__()

    def _exit(self, kind: Any, error: Any, trace: Any) -> bool | None:
        """A context that was entered before the run was brought back here isn't there to be left."""
        return self._context.__exit__(kind, error, trace) if self._is_entered else False


def _whole(value: Any) -> Any:
    return tuple(value) if isinstance(value, Iterator) else value
