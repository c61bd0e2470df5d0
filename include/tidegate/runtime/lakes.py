"""The lakes of this process: which one an output's URI names, and what each is made of."""

import os
from collections.abc import Callable, Mapping

from tidegate.lake.lakes import Lakes
from tidegate.lake.log_lake import LogLake
from tidegate.lake.parquet import ParquetLake
from tidegate.lake.staged_files import StagedFiles
from tidegate.model.output_uri import FILE_SYSTEMS, OBJECT_STORES, SchemaEvolution, parse_output
from tidegate.parquet.known_stores import store_of
from tidegate.ports import Connections, TableLog, TableUpkeep


def lakes(connections: Connections, evolution: SchemaEvolution = "fail") -> Lakes:
    """The port `Lake` for outputs of every format; a format's packages are imported when an output needs them."""
    staged = StagedFiles()

    def with_log(table_log: Callable[[], TableLog]) -> Callable[[], LogLake]:
        return lambda: LogLake(table_log(), staged)

    logs = _table_logs(connections, evolution)
    parquet_on_a_store, delta, iceberg = (with_log(logs[each]) for each in ("parquet", "delta", "iceberg"))
    return Lakes(
        {
            **dict.fromkeys(FILE_SYSTEMS, lambda: ParquetLake(staged)),
            **dict.fromkeys(OBJECT_STORES, parquet_on_a_store),
            **{f"delta+{scheme}": delta for scheme in ("file", *OBJECT_STORES)},
            "iceberg": iceberg,
        }
    )


def table_log_of(output: str, connections: Connections) -> TableLog:
    """The port `TableLog` for an output that has one, by its URI; nothing is to be created by it."""
    return _table_logs(connections, "fail")[parse_output(output).format]()


def _table_logs(connections: Connections, evolution: SchemaEvolution) -> Mapping[str, Callable[[], TableLog]]:
    def iceberg() -> TableLog:
        from tidegate.lake.iceberg.catalogs import Catalogs  # noqa: PLC0415 (needs tidegate[iceberg])
        from tidegate.lake.iceberg.log import IcebergLog  # noqa: PLC0415

        return IcebergLog(Catalogs(connections), evolution)

    def delta() -> TableLog:
        from tidegate.lake.delta.log import DeltaLog  # noqa: PLC0415 (needs tidegate[delta])

        return DeltaLog(_delta_options, evolution)

    def parquet_on_a_store() -> TableLog:
        from tidegate.lake.object_store.log import ObjectLog  # noqa: PLC0415 (needs tidegate[object-stores])

        return ObjectLog()

    return {"iceberg": iceberg, "delta": delta, "parquet": parquet_on_a_store}


def upkeep_of(table: str, connections: Connections) -> TableUpkeep:
    """The port `TableUpkeep` for the format of a table, by the URI of an output."""

    def iceberg() -> TableUpkeep:
        from tidegate.lake.iceberg.catalogs import Catalogs  # noqa: PLC0415 (needs tidegate[iceberg])
        from tidegate.lake.iceberg.upkeep import IcebergUpkeep  # noqa: PLC0415

        return IcebergUpkeep(Catalogs(connections))

    def delta() -> TableUpkeep:
        from tidegate.lake.delta.upkeep import DeltaUpkeep  # noqa: PLC0415 (needs tidegate[delta])

        return DeltaUpkeep(_delta_options)

    return {"iceberg": iceberg, "delta": delta}[parse_output(table).format]()


def _delta_options(uri: str) -> dict[str, str]:
    return store_of(uri).for_object_store(os.environ)
