"""Tidegate: Kafka records into a lake in bounded batches, their offsets committed last."""
