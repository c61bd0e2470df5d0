"""The properties of other systems that this one has under another name or not at all, and what stands for each.

The sentences are read after "NAME isn't a property here: ". A name that means the same here is no entry: it is the
property's own name, or one of `property_table.ALIASES`.
"""

from collections.abc import Mapping

_SMALLRYE: Mapping[str, str] = {
    "batch": "every run takes a batch; consumer.max.poll.records bounds it",
    "broadcast": "a DAG has as many downstream tasks and assets as it likes",
    "channel": "the file's name is the subscription's",
    "checkpoint.state-store": "the ledger keeps positions and state: remove it",
    "checkpoint.state-type": "a transform's state is a JSON value: remove it",
    "client-id-prefix": "it is consumer.client.id",
    "cloud-events": "headers land as they are, and processing.transform reads them",
    "concurrency": "it is `members`, the landing tasks that share a batch's partitions",
    "connector": "every subscription reads from Kafka: remove it",
    "consumer-rebalance-listener.name": "partitions are assigned outright and nothing is rebalanced: remove it",
    "dead-letter-queue.key.serializer": "dead letters keep the bytes that came: remove it",
    "dead-letter-queue.producer-client-id": "the commit's own producer writes dead letters: remove it",
    "dead-letter-queue.value.serializer": "dead letters keep the bytes that came: remove it",
    "enabled": "pause the DAG in Airflow instead",
    "graceful-shutdown": "a run ends by itself and closes its consumer: remove it",
    "health-enabled": "`tidegate status` and the DAG's runs show a subscription's health: remove it",
    "health-readiness-enabled": "`tidegate status` and the DAG's runs show a subscription's health: remove it",
    "incoming": "each incoming channel is a file of its own here",
    "kafka-configuration": "Kafka's properties stand under `consumer`, addresses and credentials in the connection",
    "key-deserialization-failure-handler": "fail-on-deserialization-failure says what becomes of such a record",
    "lazy-client": "nothing is connected before it is used: remove it",
    "max-queue-size-factor": "landing fetches ahead a bounded number of records by itself: remove it",
    "pause-if-no-requests": "landing reads a planned range and then stops, so nothing is to be paused: remove it",
    "poll-timeout": "it is poll-timeout.ms, and bounds the whole wait of a run rather than one poll",
    "retry": "a broker that is away is an empty run, and the schedule tries again: remove it",
    "retry-attempts": "a broker that is away is an empty run, and the schedule tries again: remove it",
    "retry-max-wait": "a broker that is away is an empty run, and the schedule tries again: remove it",
    "topic": "it is `topics`, a list, as in topics: [flights]",
    "tracing-enabled": "headers land as they are, those of a trace too: remove it",
    "value-deserialization-failure-handler": "fail-on-deserialization-failure says what becomes of such a record",
}
_OCI: Mapping[str, str] = {
    "commitOnGet": "it is commit-strategy: on-next-poll for true, manual for false",
    "groupName": "it is consumer.group.id",
    "instanceName": "instances are `members`, and the DAG run names them itself",
    "limit": "it is consumer.max.poll.records",
    "partition": "it is `partitions`, as in partitions: {flights: [0, 2]}",
    "streamId": "it is `topics`, the stream's name, and the stream pool is the Airflow connection",
    "timeoutInMs": "partitions are assigned outright and no reservation runs out; "
    "consumer.max.poll.interval.ms bounds a delivery",
}
_QUEUE_OVER_HTTP: Mapping[str, str] = {
    "additionalHeaders": "no HTTP is spoken; processing.transform sees the whole batch",
    "autoCommitPeriodMs": "it is commit-strategy: throttled with auto.commit.interval.ms",
    "broker": "it is `connection`, the id of an Airflow connection",
    "charset": "it is deserialization.value.encoding",
    "concurrencyFactor": "it is consumer.max.poll.records for a batch's size, `members` for tasks side by side",
    "config": "what it holds stands at the top level here",
    "delayOnErrorMs": "it is retry-delay.ms",
    "group": "its id is consumer.group.id; a group has no other name",
    "id": "the file's name is the subscription's",
    "method": "no HTTP is spoken; processing.transform sees the whole batch",
    "persist": "a subscription is a file and stays: remove it",
    "queryParamKey": "no HTTP is spoken; processing.transform sees the whole batch",
    "retryBeforeCommit": "it is `max-retries`, and failure-strategy says what follows the last one",
    "subscriptionMethod": "no HTTP is spoken; `processing` says what becomes of a batch",
    "uri": "no HTTP is spoken; `processing` says what becomes of a batch",
}
_HITACHI: Mapping[str, str] = {
    "MaxTPoolSize": "it is `members`, and Airflow's pools bound what runs at once",
    "MinTPoolSize": "tasks start when they are needed: remove it",
    "TPoolKeepalive": "tasks end when they are done: remove it",
}
_SAME_FOR_ALL: Mapping[str, str] = {
    "mp.messaging.": "write what follows the channel's name; each channel is a file of its own here",
    "urecp-kafka.": "of Hitachi's own properties, poll-timeout.ms and commit-timeout.ms are taken under this name",
}

ELSEWHERE: Mapping[str, str] = {**_SMALLRYE, **_OCI, **_QUEUE_OVER_HTTP, **_HITACHI}


def elsewhere(name: str) -> str | None:
    """What stands here for a property of another system, None for a name that none of them has."""
    families = (said for prefix, said in _SAME_FOR_ALL.items() if name.startswith(prefix))
    return ELSEWHERE.get(name) or next(families, None)
