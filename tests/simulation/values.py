"""Copies and hashes of what the world consists of, so that states can be kept, compared and gone back to."""

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from types import FunctionType, MappingProxyType, MethodType
from typing import Any

from tidegate.kafka.null_offset_store import NullOffsetStore
from tidegate.model.offsets import TopicPartition
from tidegate.testing.outbox import MemoryOutbox
from tidegate.testing.topics import MemoryTransaction

_PLAIN = (str, int, float, bytes, bool, type(None), datetime, timedelta)
_MAPPINGS = frozenset({dict, defaultdict, MappingProxyType})
_SEQUENCES = frozenset({tuple, list, TopicPartition})
_KNOWN = 200_000
_LOCK = type(threading.RLock())


class Values:
    """Hashes values by what they hold and copies what can change; both leave `opaque` objects out."""

    def __init__(self, *opaque: object) -> None:
        self._opaque = {id(each): each for each in opaque}
        self._known: dict[int, tuple[object, int]] = {}

    def hash(self, value: Any) -> int:
        """Equal for equal values in this process; the order in a mapping makes no difference."""
        kind = type(value)
        if kind in _PLAIN:
            return hash(value)
        if kind in _MAPPINGS:
            return hash(frozenset([(self.hash(key), self.hash(held)) for key, held in value.items()]))
        if kind in _SEQUENCES:
            return hash(tuple([self.hash(each) for each in value]))
        known = self._known.get(id(value))
        return known[1] if known is not None else self._hash_object(value)

    def _hash_object(self, value: Any) -> int:
        if self._is_opaque(value):
            return 0
        if is_dataclass(value):
            return self._frozen(value) if _is_frozen(value) else self._fields(value)
        match value:
            case set() | frozenset():
                return hash(frozenset([self.hash(each) for each in value]))
            case MemoryTransaction(fate=fate):
                return hash(fate)
            case BaseException():
                return hash((type(value).__name__, str(value)))
        if isinstance(value, (NullOffsetStore, MemoryOutbox)):
            value = self.hash(vars(value))
        elif not isinstance(value, (*_PLAIN, Enum)):
            raise TypeError(f"simulation: {type(value)} can't be hashed; say whether it holds anything")
        return hash(value)

    def copy(self, value: Any, memo: dict[int, Any] | None = None) -> Any:
        """The value, sharing nothing that can change; objects that occur twice in it still do."""
        if self._never_changes(value):
            return value
        memo = {} if memo is None else memo
        match value:
            case defaultdict():
                return defaultdict(value.default_factory, self._items(value, memo))
            case dict():
                return self._items(value, memo)
            case list():
                return [self.copy(each, memo) for each in value]
            case set():
                return set(value)
        return self._object(value, memo)

    def _never_changes(self, value: Any) -> bool:
        return (
            type(value) in _PLAIN
            or id(value) in self._known
            or isinstance(value, (*_PLAIN, Enum, tuple, frozenset, MappingProxyType))
            or self._is_opaque(value)
            or (is_dataclass(value) and _is_frozen(value))
        )

    def _items(self, value: Mapping[Any, Any], memo: dict[int, Any]) -> dict[Any, Any]:
        return {key: self.copy(held, memo) for key, held in value.items()}

    def _object(self, value: Any, memo: dict[int, Any]) -> Any:
        if id(value) not in memo:
            twin = memo[id(value)] = object.__new__(type(value))
            for name in _names(value):
                setattr(twin, name, self.copy(getattr(value, name), memo))
        return memo[id(value)]

    def _frozen(self, value: object) -> int:
        """Computed once for each object, which is kept so that its id stays its own."""
        if len(self._known) > _KNOWN:
            self._known.clear()
        hashed = self._fields(value)
        self._known[id(value)] = (value, hashed)
        return hashed

    def _fields(self, value: Any) -> int:
        return hash((type(value).__name__, *[self.hash(getattr(value, each.name)) for each in fields(value)]))

    def _is_opaque(self, value: object) -> bool:
        return id(value) in self._opaque or isinstance(value, (FunctionType, MethodType, _LOCK, Callable, type))  # type: ignore[arg-type]


def _is_frozen(value: Any) -> bool:
    return bool(value.__dataclass_params__.frozen)


def _names(value: Any) -> list[str]:
    return [each.name for each in fields(value)] if is_dataclass(value) else list(vars(value))
