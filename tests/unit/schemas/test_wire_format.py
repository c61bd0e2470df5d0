import pytest

from tidegate.schemas.wire_format import message_path, schema_id


def test_the_id_stands_behind_the_zero_big_endian() -> None:
    assert schema_id(b"\x00\x00\x00\x01\x02") == 258
    assert schema_id(b"\x00\xff\xff\xff\xff\x00") == 2**32 - 1


@pytest.mark.parametrize(
    ("indexes", "path"),
    [
        (b"\x00", (0,)),  # the first message, as Confluent's serializers abbreviate it
        (b"\x02\x00", (0,)),
        (b"\x02\x02", (1,)),
        (b"\x04\x02\x00", (1, 0)),
        (b"\x02\xac\x04", (278,)),
    ],
)
def test_message_indexes_lead_to_a_message(indexes: bytes, path: tuple[int, ...]) -> None:
    assert message_path(b"\x00\x00\x00\x00\x07" + indexes) == path


@pytest.mark.parametrize("indexes", [b"", b"\x80", b"\x04\x02", b"\x02", b"\x01", b"\x02\x01", b"\x02\x02\x02"])
def test_indexes_that_are_not_whole_are_refused(indexes: bytes) -> None:
    with pytest.raises(ValueError, match="message ind"):
        message_path(b"\x00\x00\x00\x00\x07" + indexes)
