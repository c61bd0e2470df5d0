"""Kafka: the adapters that read records and commit offsets; the only code that imports confluent_kafka."""
