"""The properties of other systems that this one has under another name or not at all, and what stands for each.

The sentences are read after "NAME isn't a property here: ". A name that means the same here is no entry: it is the
property's own name, or one of `property_table.ALIASES`.
"""

from collections.abc import Mapping

_SMALLRYE: Mapping[str, str] = {
    "batch": "every run takes a batch; consumer.max.poll.records bounds it",
    "broadcast": "a DAG may have any number of downstream tasks and assets",
    "channel": "the file's name is the subscription's",
    "channel-name": "the file's name is the subscription's",
    "checkpoint.state-store": "the ledger keeps positions and state: remove it",
    "checkpoint.state-type": "a transform's state is a JSON value: remove it",
    "client-id-prefix": "it is consumer.client.id",
    "cloud-events": "headers land unchanged: remove it",
    "concurrency": "it is `members`, the landing tasks that share a batch's partitions",
    "connector": "every subscription reads from Kafka: remove it",
    "consumer-rebalance-listener.name": "partitions are assigned directly and never rebalanced: remove it",
    "dead-letter-queue.key.serializer": "dead letters keep the bytes as received: remove it",
    "dead-letter-queue.producer-client-id": "the commit's own producer writes dead letters: remove it",
    "dead-letter-queue.value.serializer": "dead letters keep the bytes as received: remove it",
    "enabled": "pause the DAG in Airflow instead",
    "graceful-shutdown": "a run ends by itself and closes its consumer: remove it",
    "health-enabled": "`tidegate status` shows a subscription's health: remove it",
    "health-readiness-enabled": "`tidegate status` shows a subscription's health: remove it",
    "incoming": "each incoming channel is its own file here",
    "kafka-configuration": "Kafka's properties go under `consumer`, addresses and credentials into the connection",
    "key-deserialization-failure-handler": "it is fail-on-deserialization-failure",
    "lazy-client": "clients connect when they are used: remove it",
    "max-queue-size-factor": "a run reads a planned range in bounded memory: remove it",
    "pause-if-no-requests": "a run reads a planned range in bounded memory: remove it",
    "poll-timeout": "it is poll-timeout.ms, which bounds a run's whole wait",
    "retry": "without a broker a run is empty, and the next one tries again: remove it",
    "retry-attempts": "without a broker a run is empty, and the next one tries again: remove it",
    "retry-max-wait": "without a broker a run is empty, and the next one tries again: remove it",
    "topic": "it is `topics`, a list, as in topics: [flights]",
    "tracing-enabled": "headers land unchanged: remove it",
    "value-deserialization-failure-handler": "it is fail-on-deserialization-failure",
}
_OCI: Mapping[str, str] = {
    "commitOnGet": (
        "true is commit-strategy: on-next-poll; for false, a commit after the work is after-processing, the default, "
        "and one by a person is manual"
    ),
    "groupName": "it is consumer.group.id",
    "instanceName": "instances are `members`, which the DAG run names",
    "limit": "it is consumer.max.poll.records",
    "partition": "it is `partitions`, as in partitions: {flights: [0, 2]}",
    "streamId": "it is `topics`, the stream's name, and the stream pool is the Airflow connection",
    "timeoutInMs": "it is consumer.max.poll.interval.ms, which bounds a delivery",
}
_QUEUE_OVER_HTTP: Mapping[str, str] = {
    "additionalHeaders": "it is processing.headers",
    "autoCommitPeriodMs": "it is commit-strategy: throttled with auto.commit.interval.ms",
    "broker": "it is `connection`, the id of an Airflow connection",
    "concurrencyFactor": "it is processing.concurrency-factor",
    "config": "concurrencyFactor is processing.concurrency-factor, and the rest goes to the top level",
    "delayOnErrorMs": "it is processing.delay-on-error.ms",
    "group": "its id is consumer.group.id, and its name the description",
    "id": "the file's name is the subscription's",
    "name": "topics are a list of their names, as in topics: [flights]; a group's is the description",
    "persist": "a subscription is a file and stays: remove it",
    "queryParamKey": "it is processing.query-param-key",
    "retryBeforeCommit": "it is processing.retry-before-commit, and then failure-strategy applies",
    "subscriptionMethod": "its properties go to `processing`, beside kind: http",
}
_HITACHI: Mapping[str, str] = {
    "MaxTPoolSize": "it is `members`, limited by Airflow's pools",
    "MinTPoolSize": "tasks start and end as needed: remove it",
    "TPoolKeepalive": "tasks start and end as needed: remove it",
}
_AIRFLOW: Mapping[str, str] = {
    "catchup": "a run takes all that waits, so none is caught up: remove it",
    "default_args": "what is under `airflow` goes to every task: name each there",
    "depends_on_past": "one run is active at a time: remove it",
    "max_active_runs": "one run is active at a time: remove it",
    "max_active_tasks": "`members` is how many land at once",
    "retries": "it is max-retries, at the top level",
    "retry_delay": "it is retry-delay.ms, at the top level",
    "start_date": "runs start by `schedule` once the DAG is unpaused: remove it",
}
_SPARK: Mapping[str, str] = {"mode": "rows are appended, or merged by processing.keys: remove it"}
_SAME_FOR_ALL: Mapping[str, str] = {
    "%": "profiles are Quarkus': each environment has definitions of its own, with the connection's id in all of them",
    "apicurio.": "deserialization.schema-registry names the connection of a registry with Confluent's API",
    "health-": "`tidegate status` shows a subscription's health: remove it",
    "kafka.": "Kafka's properties go under `consumer`, addresses and credentials into the connection",
    "mp.messaging.": "write what follows the channel's name; each channel is a file of its own here",
    "urecp-kafka.": (
        "of Hitachi's own, urecp-kafka.poll-timeout.ms and urecp-kafka.commit-timeout.ms are taken, at the top level"
    ),
}

ELSEWHERE: Mapping[str, str] = {**_SMALLRYE, **_OCI, **_QUEUE_OVER_HTTP, **_HITACHI, **_AIRFLOW, **_SPARK}


def elsewhere(name: str) -> str | None:
    """What stands here for a property of another system, None for a name that none of them has."""
    families = (said for prefix, said in _SAME_FOR_ALL.items() if name.startswith(prefix))
    return ELSEWHERE.get(name) or ELSEWHERE.get(_in_camel_case(name)) or next(families, None)


def _in_camel_case(name: str) -> str:
    """A name of OCI's Python SDK, as `group_name`, as its API has it."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
