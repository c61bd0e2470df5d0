"""What a subscription reads and writes, as Airflow assets. Their URIs hold no address and no credentials."""

import re
from urllib.parse import quote

from airflow.sdk import Asset, AssetWatcher

from tidegate.config import outputs
from tidegate.config.settings import Settings
from tidegate.model.output_uri import parse_output
from tidegate.model.subscription import RecordSchedule, Subscription, TopicNames, TopicPartitions

_PASSWORD = re.compile(r"(?<=://)[^/?#@]*:[^/?#@]*@")
_AS_IT_IS = "/:@=+,~"


def inlets(subscription: Subscription) -> list[Asset]:
    """One asset for each topic that the definition names; `kafka://<connection id>/<topic>`.

    A pattern names none: which topics it matches is known only when a run plans.
    """
    match subscription.topics:
        case TopicNames(names):
            topics = names
        case TopicPartitions(partitions):
            topics = tuple(partitions)
        case _:
            topics = ()
    return [Asset(f"kafka://{quote(subscription.connection, safe='')}/{topic}") for topic in topics]


def waiting(subscription: str, schedule: RecordSchedule) -> Asset:
    """The records that wait for a subscription, which change when a run is due; the triggerer watches for that."""
    from tidegate_airflow.triggers import RecordScheduleTrigger  # noqa: PLC0415 (few definitions have such a schedule)

    trigger = RecordScheduleTrigger(
        subscription=subscription, records=schedule.records, or_after_ms=schedule.or_after_ms
    )
    watcher = AssetWatcher(name=f"{subscription} records", trigger=trigger)
    return Asset(f"{subscription} records", f"tidegate://records/{subscription}", watchers=[watcher])


def outlet(subscription: Subscription, settings: Settings) -> Asset:
    """The output's asset: the URI of its folder or table, without a password or a connection's id in it."""
    public = parse_output(output_uri(subscription, settings)).public_uri
    return Asset(quote(without_password(public), safe=_AS_IT_IS))


def output_uri(subscription: Subscription, settings: Settings) -> str:
    """The absolute URI of the output, as the ledger has it."""
    return outputs.output_uri(settings.home, subscription.processing)


def without_password(uri: str) -> str:
    """A place's URI, without the user and password that may stand in it."""
    return _PASSWORD.sub("", uri)
