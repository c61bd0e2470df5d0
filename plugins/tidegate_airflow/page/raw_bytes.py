"""Bytes that somebody sent, for people to look at: some of them, as text and as hexadecimal numbers."""

from dataclasses import dataclass

_TEXT = 1_000  # bytes
_HEX = 256
_HEADERS = 20


@dataclass(frozen=True, slots=True)
class ShownBytes:
    """The beginning of a value; `text` has what isn't printable replaced, `size` is that of the whole value."""

    size: int
    text: str
    hex: str

    @property
    def is_cut(self) -> bool:
        """Whether there is more than the text has."""
        return self.size > _TEXT


def shown_bytes(value: bytes | None) -> ShownBytes | None:
    """As much of a value as is shown; None for null."""
    if value is None:
        return None
    text = value[:_TEXT].decode("utf-8", "replace")
    printable = "".join(each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}" for each in text)
    return ShownBytes(len(value), printable, value[:_HEX].hex(" ", -2))


def shown_headers(
    headers: tuple[tuple[str, bytes | None], ...],
) -> tuple[list[tuple[str, ShownBytes | None]], int]:
    """The first headers, and how many there are beside them."""
    shown = [(name[:_HEX], shown_bytes(value)) for name, value in headers[:_HEADERS]]
    return shown, max(0, len(headers) - _HEADERS)
