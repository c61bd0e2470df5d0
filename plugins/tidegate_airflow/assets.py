"""What a subscription reads and writes, as Airflow assets. Their URIs hold no address and no credentials."""

import re
from urllib.parse import quote

from airflow.sdk import Asset

from tidegate.config.settings import Settings, absolute_uri
from tidegate.model.subscription import Subscription, TopicNames, TopicPartitions

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


def outlet(subscription: Subscription, settings: Settings) -> Asset:
    """The output's asset: its absolute URI, without a password that may stand in it."""
    uri = absolute_uri(settings.home, subscription.processing.output)
    return Asset(quote(_PASSWORD.sub("", uri), safe=_AS_IT_IS))
