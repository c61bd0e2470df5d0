"""Confluent's wire format: the bytes before a payload that name the schema it was written by.

A zero, the schema's id in four bytes, big-endian; for Protobuf then the path of indexes to the message's type within
its file: how many there are and each of them, as zigzag varints, where a single zero stands for the first message.
Source: Confluent's "Formats, Serializers, and Deserializers", section Wire Format.
"""

MAGIC = 0
ID_END = 5  # the zero and the id
DEEPEST = 32
"""The most message indexes that a prefix may have: deeper nesting is taken for bytes that aren't in this format."""

VARINT_BYTES = 5


def schema_id(prefix: bytes) -> int:
    """The id of the schema that a prefix names."""
    return int.from_bytes(prefix[1:ID_END], "big")


def message_path(prefix: bytes) -> tuple[int, ...]:
    """The indexes after the id: which message of the file, which of the messages nested in it, and so on.

    Raises ValueError where they aren't whole.
    """
    numbers = _zigzags(prefix[ID_END:])
    if not numbers:
        raise ValueError("the message indexes are missing")
    count, *indexes = numbers
    if count == 0:
        return (0,)
    if not 0 < count <= DEEPEST or len(indexes) != count or min(indexes) < 0:
        raise ValueError(f"the message indexes say {count} and are {indexes}")
    return tuple(indexes)


def _zigzags(content: bytes) -> list[int]:
    numbers, value, shift = [], 0, 0
    for byte in content:
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 7 * VARINT_BYTES:
            raise ValueError("a message index has more bytes than a number of 32 bits")
        if byte < 0x80:  # noqa: PLR2004 (the bit that says that more follows)
            numbers.append((value >> 1) ^ -(value & 1))
            value = shift = 0
    if shift:
        raise ValueError("a message index breaks off")
    return numbers
