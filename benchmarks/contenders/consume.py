"""Plain confluent-kafka consume to nowhere: the most that a Python program on this client can reach."""

from contenders.reading import assigned
from cost import report


def consume(*, bootstrap: str, topic: str, partitions: int, each: int, batch: int) -> None:
    """Take `each` records of every partition, at most `batch` a call, and drop them."""
    consumer = assigned(bootstrap, topic, partitions)
    left = each * partitions
    while left > 0:
        left -= len(consumer.consume(min(batch, left), 0.1))
    consumer.close()


if __name__ == "__main__":
    report(consume)
