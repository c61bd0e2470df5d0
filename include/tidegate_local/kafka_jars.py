"""Kafka's jars: the broker and all that it needs, exactly those of `kafka_jars.lock`."""

import sys
from pathlib import Path

from tidegate_local.java import Java, find_java
from tidegate_local.maven_jars import JarSet

KAFKA_VERSION = "4.1.0"
# what is asked for; the lock has these and all that they need
_ROOTS = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    "org.slf4j:slf4j-simple:1.7.36",  # writes the broker's log to its standard error; Kafka names no writer itself
)
KAFKA = JarSet(
    owner="Kafka's",
    lock="kafka_jars.lock",
    folder=f"kafka-{KAFKA_VERSION}",
    header="""\
# Kafka's broker and all that it needs, as group:name:version sha256, one jar a line.
# Made by: python -m tidegate_local.kafka_jars > include/tidegate_local/kafka_jars.lock
""",
)


def kafka_jars(java: Java, cache: Path) -> Path:
    """Return the folder that holds Kafka's jars; see `JarSet.fetched`."""
    return KAFKA.fetched(java, cache)


if __name__ == "__main__":
    sys.stdout.write(KAFKA.lock_text(find_java(), _ROOTS, transitive=True))
