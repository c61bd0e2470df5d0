"""Which cases of a matrix `make test` runs: some of each kind. `make nightly` runs all the others."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
R = TypeVar("R", bound=tuple[Any, ...])


def one_in(share: int, cases: Iterable[T], kind: Callable[[T], Hashable] = lambda _: None) -> list[Any]:
    """All cases as parameters: of each kind the first and every `share`-th after it are for every run."""
    return rows_one_in(share, ((case,) for case in cases), lambda row: kind(row[0]))


def rows_one_in(share: int, rows: Iterable[R], kind: Callable[[R], Hashable] = lambda _: None) -> list[Any]:
    """The same of rows, each with a value for every parameter."""
    seen = Counter[Hashable]()
    parameters = []
    for row in rows:
        is_for_every_run = seen[kind(row)] % share == 0
        seen[kind(row)] += 1
        parameters.append(pytest.param(*row, marks=() if is_for_every_run else pytest.mark.nightly))
    return parameters
