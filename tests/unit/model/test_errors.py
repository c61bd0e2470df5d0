"""How messages combine a fact, its place and a remedy."""

import pytest

from tidegate.model.errors import message


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        ("no broker answers", "no broker answers (group g); look at its host"),
        (
            "no column x. SQLSTATE: 42703;\n'Project",
            "no column x. SQLSTATE: 42703 (group g); look at its host\n'Project",
        ),
        ("no broker answers (group g)", "no broker answers (group g); look at its host"),
    ],
)
def test_place_and_remedy_follow_the_first_line(fact: str, said: str) -> None:
    assert message(fact, "group g", "look at its host") == said


def test_a_fact_alone_stays_as_it_is() -> None:
    assert message("it ends with;\nand goes on") == "it ends with;\nand goes on"
