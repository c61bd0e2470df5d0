"""Names as people read them: some by name, the others counted."""

import pytest

from tidegate.model.counting import first_of


@pytest.mark.parametrize(
    ("names", "said"), [([], ""), (["a"], "a"), (["a", "b"], "a, b"), (["a", "b", "c", "d", 5], "a, b and 3 more")]
)
def test_so_many_are_named_and_the_others_counted(names: list[object], said: str) -> None:
    assert first_of(names, 2) == said
