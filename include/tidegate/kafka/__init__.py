"""Kafka: the adapters that read records and commit offsets; the only code that imports confluent_kafka.

* **Reading**: source.py, by reader.py over columns.py and progress.py; first_records.py, dead_letter_topic.py.
* **Positions and fences**: offsets.py and transaction.py over group.py; null_offset_store.py for who commits nothing.
* **Producing**: outbox.py and producing.py, to topics that targets.py finds; new_topics.py creates some if asked to.
* **Schema Registry**: schema_registry.py, registry_connection.py.
* **Looking**: watch.py for who waits for records, probe.py for `tidegate check --connect`.
* **Clients**: clients.py, closing.py, events.py, verification.py of certificates.
"""
