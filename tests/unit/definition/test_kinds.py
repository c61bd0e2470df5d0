"""What a property may hold, and the nearest of some names."""

import pytest

from tidegate.definition.kinds import Choice, Listing, PartitionLists, Pattern, Text, Whole, nearest

TOPICS = PartitionLists(Text("[a-z]+", "a topic's name"), Listing(Whole(0), "[0, 2]"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("max.poll.record", "max.poll.records"),
        ("Max.Poll.Records", "max.poll.records"),
        ("maxtpool", "MaxTPoolSize"),
        ("zzz", None),
        ("", None),
    ],
)
def test_the_nearest_name_is_one_that_is_like_it_whatever_its_case(name, expected):
    assert nearest(name, ("group.id", "max.poll.records", "max.poll.interval.ms", "MaxTPoolSize")) == expected


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("fail", None),
        ("ignore", "must be fail: ignore is not available yet in this version"),
        ("ignor", "must be fail (did you mean ignore?)"),
        ("FAIL", "must be fail (did you mean fail?)"),
        ("requeue:7", "must be fail: use a topic"),
        ("xyz", "must be fail"),
        (5, "must be fail"),
    ],
)
def test_a_choice_tells_what_comes_later_and_what_never_will(value, said):
    assert Choice(("fail",), later=("ignore",), instead=(("requeue:", "use a topic"),)).wrong(value) == said


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (TOPICS, 3, "a number of consumers is `members`"),
        (Pattern(), True, "`topics` left out"),
        (Pattern(), "(", "must be a regular expression: missing )"),
        (TOPICS, {"a": [0, 0]}, "has a topic, a, whose list has an item twice"),
    ],
)
def test_what_another_system_has_by_the_same_name_is_explained(kind, value, said):
    assert said in (kind.wrong(value) or "")
