"""A dlt resource that yields Arrow tables, loaded as Parquet into a folder."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cost import report

os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"  # before dlt is imported

import dlt
import pyarrow as pa

from contenders.columns import table
from contenders.reading import assigned

_SETTINGS = {
    "PROVIDERS__ENABLE_AIRFLOW_SECRETS": "false",  # or it imports Airflow, which other contenders need
    "RUNTIME__LOG_LEVEL": "ERROR",
    "NORMALIZE__DATA_WRITER__COMPRESSION": "lz4",
    "NORMALIZE__PARQUET_NORMALIZER__ADD_DLT_LOAD_ID": "false",
    "DATA_WRITER__COMPRESSION": "lz4",
    "EXTRACT__DATA_WRITER__BUFFER_MAX_ITEMS": "100000",
}


def dlt_resource(*, bootstrap: str, topic: str, partitions: int, each: int, into: str, batch: int) -> None:
    """Extract, normalize and load: all that a run of the pipeline does."""

    @dlt.resource(name="records", max_table_nesting=0)  # type: ignore[untyped-decorator]
    def records() -> Iterator[pa.Table]:
        consumer = assigned(bootstrap, topic, partitions)
        left = each * partitions
        while left > 0:
            messages = consumer.consume(min(batch, left), 5)
            left -= len(messages)
            yield table(messages)
        consumer.close()

    with tempfile.TemporaryDirectory() as home:
        os.environ |= _SETTINGS | {"DLT_DATA_DIR": home, "DLT_PROJECT_DIR": home}
        destination = dlt.destinations.filesystem(bucket_url=Path(into).as_uri())
        pipeline = dlt.pipeline("benchmark", pipelines_dir=home, destination=destination, dataset_name="landed")
        pipeline.run(records(), loader_file_format="parquet")


if __name__ == "__main__":
    report(dlt_resource)
