"""Which cases of a matrix `make test` runs: some of each kind. `make nightly` runs all the others."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def one_in(share: int, cases: Iterable[T], kind: Callable[[T], Hashable] = lambda _: None) -> list[Any]:
    """All cases as parameters: of each kind the first and every `share`-th after it are for every run."""
    seen = Counter[Hashable]()
    parameters = []
    for case in cases:
        is_for_every_run = seen[kind(case)] % share == 0
        seen[kind(case)] += 1
        parameters.append(pytest.param(case, marks=() if is_for_every_run else pytest.mark.nightly))
    return parameters
