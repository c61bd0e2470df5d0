"""The hook behind connections of type `tidegate_kafka`: what Airflow's button Test asks."""

from typing import Any, ClassVar

from airflow.sdk import BaseHook

from tidegate.model.errors import TidegateError
from tidegate_airflow.connections import AirflowConnections

_SECONDS = 10.0


class KafkaHook(BaseHook):  # type: ignore[misc]  # Airflow's types aren't followed
    """Speaks to the brokers of a connection, with its credentials.

    Definitions take connections of this type and of type `kafka` alike.
    """

    conn_name_attr: ClassVar[str] = "kafka_conn_id"
    default_conn_name: ClassVar[str] = "kafka_default"
    conn_type: ClassVar[str] = "tidegate_kafka"
    hook_name: ClassVar[str] = "Kafka (Tidegate)"

    def __init__(self, kafka_conn_id: str = default_conn_name, **options: Any) -> None:
        super().__init__(**options)
        self.kafka_conn_id = kafka_conn_id

    def test_connection(self) -> tuple[bool, str]:
        """Whether the brokers answer and let the user in, and what they say."""
        from tidegate.kafka.probe import ClusterProbe  # noqa: PLC0415 (Airflow imports this for each of its forms)
        from tidegate.security.client import kafka_client  # noqa: PLC0415 (see above)

        try:
            found = ClusterProbe(kafka_client(AirflowConnections().get(self.kafka_conn_id)), _SECONDS).partitions()
        except TidegateError as error:
            return False, str(error)
        return True, f"the brokers answer: {len({each.topic for each in found}):,} topics may be seen"
