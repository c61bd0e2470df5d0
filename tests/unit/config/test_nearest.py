"""The nearest of some names."""

import pytest

from tidegate.config.nearest import nearest


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
