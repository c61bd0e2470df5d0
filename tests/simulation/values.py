"""Copies and hashes of what the world consists of, so that states can be kept, compared and gone back to."""

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from types import FunctionType, MappingProxyType, MethodType
from typing import Any

from tidegate.kafka.null_offset_store import NullOffsetStore
from tidegate.model.offsets import TopicPartition
from tidegate.testing.outbox import MemoryOutbox
from tidegate.testing.topics import MemoryTransaction

_PLAIN = (str, int, float, bytes, bool, type(None), datetime, timedelta)
_HASHABLE = frozenset({*_PLAIN, TopicPartition})
_NEVER_CHANGE = (*_PLAIN, Enum, tuple, frozenset, MappingProxyType)
_KNOWN = 200_000
_LOCK = type(threading.RLock())
_OPAQUE = (FunctionType, MethodType, _LOCK, Callable, type)

_Hash = Callable[[Any], int]
_Copy = Callable[[Any, dict[int, Any]], Any]


class Values:
    """Hashes values by what they hold and copies what can change; both leave `opaque` objects out.

    How, depends on a value's type alone, so it is found out once for each type.
    """

    def __init__(self, *opaque: object) -> None:
        self._opaque = {id(each): each for each in opaque}
        self._opaque_types = {type(each) for each in opaque}
        self._known: dict[int, tuple[object, int]] = {}
        self._hash_of: dict[type, _Hash] = {}
        self._copy_of: dict[type, _Copy | None] = {}
        self._hashings: tuple[tuple[Any, _Hash], ...] = (
            (_OPAQUE, lambda _: 0),
            ((dict, MappingProxyType), self._mapping),
            ((tuple, list), lambda held: hash(tuple(map(self.hash, held)))),
            ((set, frozenset), lambda held: hash(frozenset(map(self.hash, held)))),
            (MemoryTransaction, lambda transaction: hash(transaction.fate)),
            (BaseException, lambda error: hash((type(error).__name__, str(error)))),
            ((NullOffsetStore, MemoryOutbox), lambda held: self.hash(vars(held))),
            ((*_PLAIN, Enum), hash),
            (tuple(self._opaque_types), lambda _: 0),
        )

    def hash(self, value: Any) -> int:
        """Equal for equal values in this process; the order in a mapping makes no difference."""
        kind = type(value)
        if kind in _HASHABLE:
            return hash(value)
        hashed = self._hash_of.get(kind)
        if hashed is None:
            hashed = self._hash_of[kind] = self._hashing(value)
        return hashed(value)

    def copy(self, value: Any, memo: dict[int, Any] | None = None) -> Any:
        """The value, sharing nothing that can change; objects that occur twice in it still do."""
        kind = type(value)
        if kind not in self._copy_of:
            self._copy_of[kind] = self._copying(value)
        copied = self._copy_of[kind]
        return value if copied is None else copied(value, {} if memo is None else memo)

    def _hashing(self, value: Any) -> _Hash:
        """How values of this one's type are hashed."""
        hashed = self._hashing_of_data(value)
        return partial(self._unless_opaque, hashed) if type(value) in self._opaque_types else hashed

    def _hashing_of_data(self, value: Any) -> _Hash:
        if is_dataclass(value) and not isinstance(value, _OPAQUE):  # type: ignore[arg-type]
            by_fields = partial(self._fields, type(value).__name__, _names(value))
            return partial(self._once, by_fields) if _is_frozen(value) else by_fields
        for kinds, hashed in self._hashings:
            if isinstance(value, kinds):
                return hashed
        raise TypeError(f"simulation: {type(value)} can't be hashed; say whether it holds anything")

    def _mapping(self, value: Mapping[Any, Any]) -> int:
        return hash(frozenset(zip(map(self.hash, value), map(self.hash, value.values()), strict=True)))

    def _fields(self, kind: str, names: list[str], value: object) -> int:
        return hash((kind, *[self.hash(getattr(value, name)) for name in names]))

    def _once(self, hashed: _Hash, value: object) -> int:
        """Computed once for each object, which is kept so that its id stays its own."""
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        if len(self._known) > _KNOWN:
            self._known.clear()
        made = hashed(value)
        self._known[id(value)] = (value, made)
        return made

    def _unless_opaque(self, hashed: _Hash, value: object) -> int:
        return 0 if id(value) in self._opaque else hashed(value)

    def _copying(self, value: Any) -> _Copy | None:
        """How values of this one's type are copied; None if they never change."""
        is_frozen = is_dataclass(value) and _is_frozen(value)
        if is_frozen or isinstance(value, (*_NEVER_CHANGE, *_OPAQUE)):  # type: ignore[arg-type]
            return None
        match value:
            case defaultdict():
                return lambda held, memo: defaultdict(held.default_factory, self._items(held, memo))
            case dict():
                return self._items
            case list():
                return lambda held, memo: [self.copy(each, memo) for each in held]
            case set():
                return lambda held, _: set(held)
        return self._object

    def _items(self, value: Mapping[Any, Any], memo: dict[int, Any]) -> dict[Any, Any]:
        known = self._copy_of
        return {
            key: held if known.get(type(held), self._object) is None else self.copy(held, memo)
            for key, held in value.items()
        }

    def _object(self, value: Any, memo: dict[int, Any]) -> Any:
        if id(value) in self._opaque:
            return value
        if id(value) not in memo:
            twin = memo[id(value)] = object.__new__(type(value))
            for name in _names(value):
                setattr(twin, name, self.copy(getattr(value, name), memo))
        return memo[id(value)]


def _is_frozen(value: Any) -> bool:
    return bool(value.__dataclass_params__.frozen)


def _names(value: Any) -> list[str]:
    return [each.name for each in fields(value)] if is_dataclass(value) else list(vars(value))
