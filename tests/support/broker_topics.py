"""Topics made and deleted, for whoever asks next: Kafka answers before the broker knows itself."""

from collections.abc import Callable, Mapping
from time import monotonic, sleep

from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata

_SECONDS = 120
_POLL_SECONDS = 0.02


def make_topic(admin: AdminClient, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
    """Return once the broker lists it, with a leader for each partition."""
    admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))])[name].result(_SECONDS)

    def leads() -> bool:
        found = listed(admin, name).partitions.values()
        return len(found) == partitions and all(one.leader >= 0 for one in found)

    _wait_for(leads, f"the broker doesn't list {name}")


def delete_topic(admin: AdminClient, name: str) -> None:
    """Return once the broker lists it no more."""
    admin.delete_topics([name])[name].result(_SECONDS)
    _wait_for(lambda: not is_there(admin, name), f"the broker still lists {name}")


def is_there(admin: AdminClient, name: str) -> bool:
    """Whether the broker lists the topic."""
    return bool(listed(admin, name).partitions)


def listed(admin: AdminClient, name: str) -> TopicMetadata:
    """What the broker says of this topic alone: of the hundreds of a test run it would say for a tenth of a second."""
    return admin.list_topics(name, timeout=20).topics[name]


def _wait_for(holds: Callable[[], bool], why: str) -> None:
    deadline = monotonic() + _SECONDS
    while not holds():
        assert monotonic() < deadline, why
        sleep(_POLL_SECONDS)
