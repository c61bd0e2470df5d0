"""A record that is to be sent."""

from typing import NamedTuple

from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Headers


class Message(NamedTuple):
    """A record as it was landed; `timestamp` is in ms since 1970, None without one.

    Timestamp and headers are only there for whoever looks at them (`RequestBuilder.sees_all`).
    """

    at: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: Headers = ()
