"""The headers of dead letters, as SmallRye's KafkaDeadLetterQueue names them; the last of a name counts."""

EXCEPTION_CLASS_NAME = "dead-letter-exception-class-name"
REASON = "dead-letter-reason"
CAUSE_CLASS_NAME = "dead-letter-cause-class-name"
CAUSE = "dead-letter-cause"
TOPIC = "dead-letter-topic"
PARTITION = "dead-letter-partition"
OFFSET = "dead-letter-offset"

UNDECODABLE_FLAG = "deserialization-failure-dlq"
"""Says that a record couldn't be decoded when it was read; who reads the dead letter must not believe it any more."""
