"""Values as Avro and Confluent's wire format encode them, by hand, for tests."""


def framed(schema_id: int, payload: bytes) -> bytes:
    """A payload behind its schema's id."""
    return b"\x00" + schema_id.to_bytes(4, "big") + payload


def number(value: int) -> bytes:
    """Avro's int and long."""
    zigzag, content = (value << 1) ^ (value >> 63), b""
    while zigzag >= 0x80:
        content += bytes([zigzag & 0x7F | 0x80])
        zigzag >>= 7
    return content + bytes([zigzag])


def text(value: str) -> bytes:
    """Avro's string."""
    return number(len(value.encode())) + value.encode()
