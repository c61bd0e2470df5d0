"""Airflow's own ConsumeFromTopicOperator with a batch function that writes Parquet."""

import json
import logging
import os
import shutil
import tempfile
from pathlib import Path

from cost import report

os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp()  # before Airflow is imported, or it writes to the user's own

import pyarrow.parquet as pq
from airflow.providers.apache.kafka.operators.consume import ConsumeFromTopicOperator
from confluent_kafka import Message

from contenders.columns import SCHEMA, table

WRITE = {"compression": "lz4", "use_dictionary": ["partition", "timestamp"]}


def airflow_operator(*, bootstrap: str, topic: str, partitions: int, each: int, into: str, batch: int) -> None:
    """Let the operator execute; a batch becomes a row group."""
    extra = {
        "bootstrap.servers": bootstrap,
        "group.id": Path(into).name,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "check.crcs": True,
        "fetch.queue.backoff.ms": 2,
    }
    os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps({"conn_type": "kafka", "extra": extra})
    with pq.ParquetWriter(f"{into}/0.parquet", SCHEMA, **WRITE) as writer:

        def write(messages: list[Message]) -> None:
            writer.write_table(table(messages))

        consume = ConsumeFromTopicOperator(
            task_id="consume",
            topics=[topic],
            apply_function_batch=write,
            max_messages=each * partitions,
            max_batch_size=min(batch, each * partitions),  # or it raises the other, and waits for more than there are
            commit_cadence="end_of_operator",
        )
        consume.execute({})


if __name__ == "__main__":
    logging.disable(logging.INFO)
    report(airflow_operator)
    shutil.rmtree(os.environ["AIRFLOW_HOME"])
