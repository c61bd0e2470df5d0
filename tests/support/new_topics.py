"""New topics that whoever asks next finds: Kafka answers before the broker knows them itself."""

from collections.abc import Mapping
from time import monotonic, sleep

from confluent_kafka.admin import AdminClient, NewTopic

_SECONDS = 120
_POLL_SECONDS = 0.02


def make_topic(admin: AdminClient, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
    """Return once the broker lists it, with a leader for each partition."""
    admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))])[name].result(_SECONDS)
    deadline = monotonic() + _SECONDS
    while not _is_listed(admin, name, partitions):
        assert monotonic() < deadline, f"the broker doesn't list {name}"
        sleep(_POLL_SECONDS)


def _is_listed(admin: AdminClient, name: str, partitions: int) -> bool:
    found = admin.list_topics(name, timeout=10).topics[name].partitions.values()
    return len(found) == partitions and all(one.leader >= 0 for one in found)
