"""The sample subscription in each format: its definition, what Spark needs for it, and how its rows are counted."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml  # type: ignore[import-untyped]  # comes with Airflow, without types
from pyspark.sql.connect.session import SparkSession

from tidegate_local.airflow_home import Connection
from tidegate_local.batches import BatchLine
from tidegate_local.java import Java
from tidegate_local.spark_table_jars import TABLE_SETTINGS, jdbc_catalog, spark_table_jars
from tidegate_local.summary import LakeCount, count_lake

_TABLES: Final = Path("data/tables")
_CATALOG: Final = "lake"
_ICEBERG_TABLE: Final = f"{_CATALOG}.flights.departures"


class ParquetSample:
    """`flights` as it is defined in the project: Parquet files in folders."""

    subscription = "flights"
    group = "flights-lake"

    def __init__(self, project: Path) -> None:
        self.project = project

    def homes(self) -> Mapping[str, Path]:
        """Where Tidegate's commands and tasks find the sample, by the names of its settings."""
        return {"TIDEGATE_HOME": self.project}

    def connections(self) -> Mapping[str, Connection]:
        """Airflow connections that the definition needs beside Kafka's and Spark's."""
        return {}

    def spark_settings(self) -> Mapping[str, str]:
        """What Spark has to be started with."""
        return {}

    def spark_jars(self, java: Java, cache: Path) -> tuple[Path, ...]:  # noqa: ARG002 - it reads Parquet by itself
        """What Spark needs besides; fetched if need be."""
        return ()

    def count(self, session: SparkSession, batches: Sequence[BatchLine]) -> LakeCount:  # noqa: ARG002 - files tell both
        """What Spark finds in the output."""
        return count_lake(session, self.project / "data/lake/flights")


class DeltaSample(ParquetSample):
    """The same into a Delta table."""

    subscription = "flights_delta"
    group = "flights-delta"

    def homes(self) -> Mapping[str, Path]:
        """See `ParquetSample`: one definition, made from that of `flights`, in a folder of its own."""
        definition = yaml.safe_load((self.project / "include/subscriptions/flights.yaml").read_text("utf-8"))
        definition["consumer"]["group.id"] = self.group
        definition["processing"] |= self._processing()
        folder = self.project / "data" / "subscriptions" / self.subscription
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.subscription}.yaml").write_text(yaml.safe_dump(definition, sort_keys=False), "utf-8")
        return {**super().homes(), "TIDEGATE_SUBSCRIPTIONS": folder}

    def spark_settings(self) -> Mapping[str, str]:
        """See `ParquetSample`."""
        return TABLE_SETTINGS

    def spark_jars(self, java: Java, cache: Path) -> tuple[Path, ...]:
        """See `ParquetSample`."""
        return spark_table_jars(java, cache)

    def count(self, session: SparkSession, batches: Sequence[BatchLine]) -> LakeCount:
        """See `ParquetSample`; what was rejected lies in no table, and the ledger tells it."""
        return LakeCount(self._rows(session), sum(each.rejected or 0 for each in batches if each.state == "committed"))

    def _processing(self) -> dict[str, str]:
        return {"format": "delta", "output": f"{_TABLES}/flights"}

    def _rows(self, session: SparkSession) -> int:
        table = self.project / _TABLES / "flights"
        return session.read.format("delta").load(str(table)).count() if table.exists() else 0


class IcebergSample(DeltaSample):
    """The same into an Iceberg table, of a catalog in SQLite that Airflow's tasks and Spark share."""

    subscription = "flights_iceberg"
    group = "flights-iceberg"

    def connections(self) -> Mapping[str, Connection]:
        """See `ParquetSample`."""
        self._database.parent.mkdir(parents=True, exist_ok=True)
        extra = {"type": "sql", "uri": f"sqlite:///{self._database}", "warehouse": self._warehouse}
        return {_CATALOG: {"conn_type": "iceberg", "extra": extra}}

    def _processing(self) -> dict[str, str]:
        return {"format": "iceberg", "output": _ICEBERG_TABLE}

    def _rows(self, session: SparkSession) -> int:
        for name, value in jdbc_catalog(_CATALOG, f"jdbc:sqlite:{self._database}", self._warehouse).items():
            session.conf.set(name, value)
        return session.table(_ICEBERG_TABLE).count() if session.catalog.tableExists(_ICEBERG_TABLE) else 0

    @property
    def _database(self) -> Path:
        return self.project / _TABLES / "catalog.db"

    @property
    def _warehouse(self) -> str:
        return f"file://{self.project / _TABLES}/iceberg"


SAMPLES: Final[Mapping[str, type[ParquetSample]]] = {
    "parquet": ParquetSample,
    "delta": DeltaSample,
    "iceberg": IcebergSample,
}
"""By format."""
