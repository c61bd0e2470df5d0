"""The headers of retried records, as SmallRye's KafkaDelayedRetryTopic names them; the last of a name counts."""

COUNT = "delayed-retry-count"
ORIGINAL_TIMESTAMP = "delayed-retry-original-timestamp"
FIRST_PROCESSING_TIMESTAMP = "delayed-retry-first-processing-timestamp"
EXCEPTION_CLASS_NAME = "delayed-retry-exception-class-name"
REASON = "delayed-retry-reason"
CAUSE_CLASS_NAME = "delayed-retry-cause-class-name"
CAUSE = "delayed-retry-cause"
TOPIC = "delayed-retry-topic"
PARTITION = "delayed-retry-partition"
OFFSET = "delayed-retry-offset"

NAMES = frozenset(
    {COUNT, ORIGINAL_TIMESTAMP, FIRST_PROCESSING_TIMESTAMP, TOPIC, PARTITION, OFFSET}
    | {EXCEPTION_CLASS_NAME, REASON, CAUSE_CLASS_NAME, CAUSE}
)
