"""The headers of dead letters, as SmallRye's KafkaDeadLetterQueue names them; the last of a name counts."""

EXCEPTION_CLASS_NAME = "dead-letter-exception-class-name"
REASON = "dead-letter-reason"
CAUSE_CLASS_NAME = "dead-letter-cause-class-name"
CAUSE = "dead-letter-cause"
TOPIC = "dead-letter-topic"
PARTITION = "dead-letter-partition"
OFFSET = "dead-letter-offset"

TIMESTAMP = "tidegate-timestamp"
"""The record's timestamp in ms since 1970, -1 without one. The letter has a timestamp of its own, so that its topic's
`retention.ms` counts from when it was produced: an old record's letter would be deleted at once."""

GENERATION = "tidegate-generation"
"""Of a record that `tidegate reprocess` rejected: the batch and its generation, as `generation_of` writes them."""

REPLAY = "tidegate-replay"
"""Of a record that `tidegate replay` rejected: the replay's name. The subscription's own output may have the record."""

UNDECODABLE_FLAG = "deserialization-failure-dlq"
"""Says that a record couldn't be decoded when it was read; who reads the dead letter must not believe it any more."""


def generation_of(batch_id: str, number: int) -> str:
    """`b0123456789abcdef0123/2`, the content of the header `GENERATION`."""
    return f"{batch_id}/{number}"
