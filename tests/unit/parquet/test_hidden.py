"""What Spark's readers skip."""

import pytest

from tidegate.parquet.hidden import is_hidden


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("part-0.parquet", False),
        ("carrier=A/part-0.parquet", False),
        ("_day=1/part-0.parquet", False),
        ("_SUCCESS", True),
        (".part-0.parquet.crc", True),
        ("carrier=A/.part-0.parquet.crc", True),
        ("_temporary/0/part-0.parquet", True),
        (".hidden=1/part-0.parquet", True),
        ("a_b/c.d", False),
    ],
)
def test_hidden_names_are_sparks(path: str, *, hidden: bool) -> None:
    assert is_hidden(path) is hidden
