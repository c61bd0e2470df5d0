"""What a task saw of its batch when it ended, and which datasets that makes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.model.output_uri import has_folders, without_connection
from tidegate_airflow.lineage.names import DatasetName, folder_name, output_name, topic_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tidegate.config.settings import Settings
    from tidegate.lake.published import PublishedBatch
    from tidegate.ledger.batch_record import BatchRecord
    from tidegate.model.batch import Batch, LandedFile
    from tidegate.model.offsets import Range, TopicPartition
    from tidegate.model.subscription import Subscription


@dataclass(frozen=True, slots=True)
class SeenDataset:
    """A dataset, and how much of it the task read or wrote; None for what isn't known. Sizes are bytes."""

    name: DatasetName
    rows: int | None = None
    size: int | None = None
    files: int | None = None


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """A batch as the ledger has it, and the lake where it is published; `landing` is the URI of the subscription's."""

    record: "BatchRecord"
    published: "PublishedBatch | None"
    bootstrap_servers: str
    landing: str

    @property
    def batch(self) -> "Batch":
        """The batch as it stands."""
        return self.record.batch

    def topics(self) -> list[SeenDataset]:
        """The topics of the batch, with its records in them."""
        return list(self._topics(self.batch.ranges, self.batch.records))

    def topics_of(self, member: int) -> list[SeenDataset]:
        """The topics of a member's share, with the records that it landed, once it has reported."""
        report = self.record.landings.get(member)
        return list(self._topics(self.batch.share(member), {} if report is None else report.records))

    def landed(self) -> SeenDataset:
        """The landing, with the batch's files."""
        return self._landing(self.batch.files)

    def landed_by(self, member: int) -> list[SeenDataset]:
        """The landing, with the files of a member; none where it hasn't reported."""
        report = self.record.landings.get(member)
        return [] if report is None else [self._landing(report.files)]

    def output(self) -> list[SeenDataset]:
        """The output, with what a delivery wrote, or what was published of it; none where nothing was written."""
        batch, published = self.batch, self.published
        if batch.rows is None:
            return []
        files = None if published is None else published.files
        size = None if files is None else sum(file.bytes for file in files)
        number = None if files is None else len(files)
        return [SeenDataset(output_name(batch.output), batch.rows, size, number)]

    def _topics(self, ranges: "Iterable[Range]", records: "Mapping[TopicPartition, int]") -> "Iterator[SeenDataset]":
        rows: dict[str, int | None] = {}
        for at in (each.at for each in ranges):
            before = rows.setdefault(at.topic, None)
            rows[at.topic] = (before or 0) + records[at] if at in records else before
        return (SeenDataset(topic_name(self.bootstrap_servers, topic), number) for topic, number in rows.items())

    def _landing(self, files: "Iterable[LandedFile]") -> SeenDataset:
        found = list(files)
        rows, size = sum(file.records for file in found), sum(file.bytes for file in found)
        return SeenDataset(folder_name(without_connection(self.landing)), rows, size, len(found))


def is_wanted() -> bool:
    """Whether the provider is installed and has somebody to tell."""
    try:
        from airflow.providers.openlineage import conf  # noqa: PLC0415 (it need not be there)
    except ImportError:
        return False
    return not conf.is_disabled()


def look(subscription: "Subscription", settings: "Settings", batch_id: str) -> SeenBatch:
    """The batch as it stands now. Raises TidegateError where ledger, lake or connection can't be asked."""
    from tidegate.lake.published import published_batch  # noqa: PLC0415 (nothing of this at parse time)
    from tidegate.ledger.batch_record import batch_record  # noqa: PLC0415 (see above)
    from tidegate.parquet.known_stores import use_connections  # noqa: PLC0415 (see above)
    from tidegate.security.client import kafka_client  # noqa: PLC0415 (see above)
    from tidegate_airflow.connections import AirflowConnections  # noqa: PLC0415 (see above)

    record = batch_record(settings.ledger, batch_id)
    batch = record.batch
    connections = AirflowConnections()
    use_connections(connections)
    client = kafka_client(connections.get(subscription.connection))
    return SeenBatch(
        record=record,
        published=published_batch(batch.output, batch.id) if batch.is_published and has_folders(batch.output) else None,
        bootstrap_servers=client["bootstrap.servers"],
        landing=f"{settings.landing.rstrip('/')}/{subscription.name}",
    )
