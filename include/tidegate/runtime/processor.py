"""What carries out the deliveries of a subscription, by the kind of its processing."""

from tidegate.config.settings import Settings
from tidegate.http.allowed import AllowedAddresses
from tidegate.model.subscription import Subscription
from tidegate.ports import Connections, Processor
from tidegate.spark.job import JobProcessor, job_file


def processor_of(subscription: Subscription, settings: Settings, connections: Connections) -> Processor:
    """What processes a batch in this process, or in a child of it."""
    processing = subscription.processing
    if processing.endpoint is None:
        return JobProcessor(connections, processing.connection, job_file(settings.home, processing.job))
    from tidegate.http.processor import HttpProcessor  # noqa: PLC0415 (libcurl, which few subscriptions need)

    group = subscription.consumer.group_id
    return HttpProcessor(
        endpoint=processing.endpoint,
        connections=connections,
        allowed=AllowedAddresses.parse(settings.http_allowed),
        broker=subscription.connection,
        consumer=f"{subscription.name}_{group}",
    )
