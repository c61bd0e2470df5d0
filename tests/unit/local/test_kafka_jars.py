"""Kafka's lock file has the pinned broker."""

from tidegate_local.kafka_jars import KAFKA, KAFKA_VERSION


def test_the_lock_has_the_pinned_broker():
    assert f"kafka_2.13-{KAFKA_VERSION}.jar" in {jar.file for jar in KAFKA.locked()}
