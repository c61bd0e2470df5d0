"""What `make run` tells at its end: what was landed, written and committed, and whether that is everything."""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.connect.session import SparkSession
from rich.console import Console
from rich.table import Table

from tidegate_local.batches import BatchLine
from tidegate_local.dag_runs import Timed, total
from tidegate_local.flights import Holdings
from tidegate_local.lag import PartitionLag


@dataclass(frozen=True)
class LakeCount:
    """Rows in the lake as Spark counts them, and the rejected ones that lie beside them."""

    rows: int
    rejected: int


@dataclass(frozen=True)
class Summary:
    """All that is known when the group has caught up."""

    subscription: str
    runs: list[Timed]
    batches: tuple[BatchLine, ...]
    lags: tuple[PartitionLag, ...]
    topic: Holdings
    lake: LakeCount

    @property
    def landed(self) -> int:
        """Records landed in all committed batches."""
        return sum(batch.records or 0 for batch in self.batches if batch.state == "committed")

    @property
    def published(self) -> int:
        """Records that the topic holds."""
        return self.topic.departures + self.topic.others

    @property
    def offsets(self) -> int:
        """Offsets that the topic's records and what else lies between them take."""
        return sum(each.end - each.start for each in self.lags)

    @property
    def complete(self) -> bool:
        """Whether everything is committed, and the lake has each record of the topic once."""
        return total(self.lags) == 0 and self.lake.rows + self.lake.rejected == self.published


def count_lake(session: SparkSession, output: Path) -> LakeCount:
    """Let Spark count the rows of all published batches below the output, and those that were rejected."""
    if not any(output.glob("batch_id=*")):
        return LakeCount(0, 0)
    rows = session.read.parquet(str(output)).count()
    rejected = [str(folder) for folder in output.glob("batch_id=*/_rejected")]
    return LakeCount(rows, session.read.parquet(*rejected).count() if rejected else 0)


def print_summary(summary: Summary, console: Console) -> None:
    """Print the summary as text and one table."""
    seconds = [run.seconds for run in summary.runs]
    timing = f", {', '.join(f'{each:.1f}' for each in seconds)} s from trigger to commit" if seconds else ""
    lake = summary.lake
    console.print(f"\nRuns            {len(seconds)}{timing}", markup=False)
    committed = sum(batch.state == "committed" for batch in summary.batches)
    console.print(f"Batches         {committed} committed of {len(summary.batches)}", markup=False)
    console.print(f"Records landed  {summary.landed:,} of {summary.published:,} in the topic", markup=False)
    if (others := summary.offsets - summary.published) > 0:
        why = f"{others:,} more than records: the end of a transaction takes one in each partition"
        console.print(f"Offsets         {summary.offsets:,}, {why}", markup=False)
    console.print(f"Rows written    {lake.rows:,} (Spark counts them in the lake), {lake.rejected:,} rejected")
    table = Table("partition", "committed offset", "end of the log", "lag", box=None, padding=(0, 2, 0, 0))
    for each in summary.lags:
        committed_offset = "none" if each.committed is None else f"{each.committed:,}"
        table.add_row(
            f"{each.topic}[{each.partition}]".replace("[", r"\["), committed_offset, f"{each.end:,}", f"{each.lag:,}"
        )
    console.print(table)
    if not summary.complete:
        console.print(
            f"Not complete: the lake has {lake.rows + lake.rejected:,} rows for {summary.published:,} records, "
            f"and the lag is {total(summary.lags):,}. See tidegate status {summary.subscription}.",
            style="red",
            markup=False,
        )
