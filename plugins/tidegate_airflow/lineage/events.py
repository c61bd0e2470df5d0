"""Datasets and facets in OpenLineage's own classes. Imported by whoever has the provider."""

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, Final

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import RunFacet, input_statistics_input_dataset, output_statistics_output_dataset

from tidegate_airflow.asset_events import bounded_ranges
from tidegate_airflow.lineage.seen import SeenBatch, SeenDataset

FACET: Final = "tidegate_batch"
"""The key of the run facet."""
SCHEMA: Final = "urn:tidegate:facets:1-0-0:TidegateBatchRunFacet.json#/$defs/TidegateBatchRunFacet"
_RANGES: Final = 100  # which an event has at most


@attr.define
class TidegateBatchRunFacet(RunFacet):
    """The batch of a task, as the ledger has it when the task ends; `TidegateBatchRunFacet.json` says what is what."""

    batchId: str = attr.field()  # noqa: N815 - OpenLineage's own way of naming
    subscription: str = attr.field()
    group: str = attr.field()
    number: int = attr.field()
    receipt: str = attr.field()
    outcome: str = attr.field()
    records: int = attr.field()
    delivery: int | None = attr.field()
    rows: int | None = attr.field()
    rejected: int | None = attr.field()
    ranges: list[dict[str, Any]] = attr.field()
    rangesLeftOut: int = attr.field()  # noqa: N815 - see above

    @staticmethod
    def _get_schema() -> str:
        return SCHEMA


def lineage(seen: SeenBatch, reads: Iterable[SeenDataset], writes: Iterable[SeenDataset]) -> OperatorLineage:
    """What a task tells of its batch, of what it read, and of what it wrote."""
    return OperatorLineage(
        inputs=[_input(each) for each in reads],
        outputs=[_output(each) for each in writes],
        run_facets={FACET: _facet(seen)},
    )


def _facet(seen: SeenBatch) -> TidegateBatchRunFacet:
    batch = seen.batch
    bounded = bounded_ranges(batch, _RANGES)
    return TidegateBatchRunFacet(
        batchId=batch.id,
        subscription=batch.subscription,
        group=batch.group,
        number=batch.next_receipt.number,
        receipt=str(batch.next_receipt),
        outcome=batch.condition,
        records=batch.landed_records,
        delivery=batch.delivery.number if batch.delivery else None,
        rows=batch.rows,
        rejected=batch.rejected,
        ranges=bounded["ranges"],
        rangesLeftOut=bounded["ranges_left_out"],
        producer=_producer(),
    )


def _input(seen: SeenDataset) -> InputDataset:
    statistics = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
        rowCount=seen.rows, size=seen.size, fileCount=seen.files, producer=_producer()
    )
    return InputDataset(*seen.name, inputFacets={"inputStatistics": statistics})


def _output(seen: SeenDataset) -> OutputDataset:
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=seen.rows, size=seen.size, fileCount=seen.files, producer=_producer()
    )
    return OutputDataset(*seen.name, outputFacets={"outputStatistics": statistics})


def _producer() -> str:
    return f"urn:tidegate:{version('tidegate')}"
