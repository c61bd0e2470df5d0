"""What carries out the deliveries of a subscription, by the kind of its processing."""

from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.config.outputs import output_uri
from tidegate.config.settings import Settings
from tidegate.http.allowed import AllowedAddresses
from tidegate.model.subscription import HttpEndpoint, Subscription
from tidegate.ports import Connections, Processor
from tidegate.spark.job import JobProcessor, job_file

if TYPE_CHECKING:
    from tidegate.http.processor import HttpProcessor


def processor_of(subscription: Subscription, settings: Settings, connections: Connections) -> Processor:
    """What processes a batch in this process, or in a child of it."""
    processing = subscription.processing
    if processing.endpoint is not None:
        return http_processor_of(subscription, processing.endpoint, settings, connections)
    job = job_file(settings.home, processing.job)
    return JobProcessor(connections, processing.connection, job, jobs=settings.spark_jobs)


def http_processor_of(
    subscription: Subscription, endpoint: HttpEndpoint, settings: Settings, connections: Connections
) -> "HttpProcessor":
    """What sends a batch to this endpoint."""
    from tidegate.http.processor import HttpProcessor  # noqa: PLC0415 (libcurl, which few subscriptions need)

    group = subscription.consumer.group_id
    return HttpProcessor(
        endpoint=endpoint,
        connections=connections,
        allowed=AllowedAddresses.parse(settings.http_allowed),
        broker=subscription.connection,
        consumer=f"{subscription.name}_{group}",
        output=Path(output_uri(settings.home, subscription.processing).removeprefix("file://")),
    )
