"""What the four steps need of the world: each port has a real adapter and an in-memory double in `testing`."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Literal, Protocol

from tidegate.acknowledged import Acknowledgements
from tidegate.batch import Batch, Delivery, Landed, LandedFile, Reached, State
from tidegate.landing_order import JobLanding, LandingOrder
from tidegate.manifest import Counts, Manifest, Published, Rejections, Result
from tidegate.positions import Range, TopicPartition, Watermarks
from tidegate.records import Failure, Outgoing, Rejected
from tidegate.subscription import CommitStrategy, TopicSelection


class Clock(Protocol):
    """Time, as the steps see it."""

    def now(self) -> datetime:
        """The present instant, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        ...


class Reader(Protocol):
    """One reading of planned ranges: iterate over its chunks, then ask how far it came."""

    def __iter__(self) -> Iterator[Sized]:
        """Chunks of records, opaque to the steps; only the landing that belongs to the source knows them.

        Ends when every range is read to its end or the deadline has passed.
        """
        ...

    def progress(self) -> tuple[tuple[Range, int], ...]:
        """For each planned range: as far as it was read, and how many records that part held."""
        ...


class RecordSource(Protocol):
    """Where records are read from. A broker that can't be reached raises BrokerUnavailableError."""

    def partitions(self, topics: TopicSelection) -> tuple[TopicPartition, ...]:
        """The partitions that exist now, in order; a missing topic has none and is never created."""
        ...

    def watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Watermarks]:
        """What each partition holds, as far as the subscription's isolation level lets it be read."""
        ...

    def offsets_at(self, partitions: Collection[TopicPartition], time: datetime) -> dict[TopicPartition, int]:
        """The first offset with a timestamp at or after the time; the end where there is none."""
        ...

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """The id that the cluster gave each topic when it was created; a missing topic, or cluster without, has none.

        A topic that was deleted and created again has another id, and its old offsets mean nothing.
        """
        ...

    def read(self, ranges: Sequence[Range], deadline: float) -> AbstractContextManager[Reader]:
        """Read exactly these ranges, until `deadline` on the monotonic clock at most."""
        ...


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed position of the group: the next offset, and what was committed with it."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = field(default=None, compare=False)


class Fence(Protocol):
    """The right to commit, as long as nobody newer has taken it."""

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Committed]:
        """The group's positions as they are now; a partition without one is left out."""
        ...

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        metadata: str,
        leader_epochs: Mapping[TopicPartition, int] = MappingProxyType({}),
        outgoing: Iterable[Outgoing] = (),
        state: str | None = None,
    ) -> None:
        """Commit all of these offsets with this metadata, and with leader epochs where they are known.

        `outgoing` records are produced with it: in the same transaction, or, where the fence has none, acknowledged
        by the broker before anything is committed, so that they may come twice. They are taken one by one.

        `state`, JSON text, is kept together with the offsets, all or nothing; None keeps the one that there was. It is
        only for stores that keep one.

        Raises CommitFailedError naming each partition that the broker refused, or the record that it didn't take,
        GroupInUseError while the group has live members, StaleError when somebody newer holds the fence,
        CommitUnknownError without an answer, WrongDefinitionError for a record of a topic that isn't there. Only
        after CommitUnknownError may anything be committed.
        """
        ...


class OffsetStore(Protocol):
    """The committed offsets of one group; they outlast this process where the store is `lasting`."""

    @property
    def lasting(self) -> bool:
        """Whether whoever comes later finds what was committed here."""
        ...

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Committed]:
        """The group's positions as they are now; a partition without one is left out."""
        ...

    def state(self) -> str | None:
        """The state, JSON text, that the last commit which brought one left; None before, and where none is kept."""
        ...

    def fence(self) -> AbstractContextManager[Fence]:
        """Take the right to commit; refuses with GroupInUseError, naming them, while there are live members."""
        ...


class Outbox(Protocol):
    """Where records are produced to, outside of any fence."""

    def send(self, outgoing: Iterable[Outgoing]) -> int:
        """Produce these records; how many they were, once the broker has acknowledged all of them.

        Raises WrongDefinitionError for a topic that isn't there, and where the user may not write; it is never
        created. BrokerUnavailableError if not all were acknowledged in time: some may be there then.
        """
        ...


class LandingWriter(Protocol):
    """One attempt of one member to land its share; on leaving its context, the files are durable."""

    def write(self, chunk: Sized) -> None:
        """Append a chunk of records of the source that belongs to this landing."""
        ...

    def files(self) -> tuple[LandedFile, ...]:
        """What was written; complete once the context is left."""
        ...


Side = Literal["key", "value"]


class Landing(Protocol):
    """Where a batch lies as received, and its manifests."""

    def writer(self, subscription: str, batch_id: str, member: int) -> AbstractContextManager[LandingWriter]:
        """Begin an attempt under a name of its own; nothing of an earlier attempt is touched."""
        ...

    def framings(self, uris: Collection[str], side: Side, *, indexed: bool) -> Mapping[bytes, int]:
        """The prefixes in Confluent's wire format that keys or values in these files have, and how many have each.

        With `indexed` Protobuf's message indexes are part of the prefix. Where there are more than some thousands,
        which only bytes in another format have, the rarest may be missing.
        """
        ...

    def records(self, uris: Collection[str], failure: Failure) -> Iterator[Rejected]:
        """The records of these files, in their order, as rejected because of this failure; a part at a time.

        Raises UnavailableError if a file can't be read.
        """
        ...

    def awaited(self, batch: Batch) -> Mapping[TopicPartition, Acknowledgements]:
        """Nothing acknowledged yet of the records that landed in each of the batch's ranges.

        Raises BatchFailedError if its files hold other records there than the batch counts, UnavailableError if one
        can't be read.
        """
        ...

    def put_manifest(self, manifest: Manifest) -> str:
        """Store the manifest of a delivery; its URI."""
        ...

    def data_files(self, subscription: str, batch_id: str) -> frozenset[str]:
        """The URIs of all files of records that attempts at landing the batch have left, finished or not."""
        ...

    def remove(self, uris: Collection[str]) -> None:
        """Remove files of records; one that is gone already is fine."""
        ...


class Lander(Protocol):
    """Lands what was planned, by whichever engine: reads exactly the ranges of a member and makes them durable."""

    def land(self, batch: Batch, member: int) -> Landed:
        """Land a member's share, in an attempt of its own; its files are durable then, and nobody counts them yet.

        Ranges may end earlier than planned, where that was as far as it came in time. Raises UnavailableError where
        nothing could be landed, LostDataError, naming the position, for records that are gone; what the attempt wrote
        is removed then, as far as it can be.
        """
        ...


class LandingOrders(Protocol):
    """Where a batch is landed by a job: the orders that jobs are given, and what they left."""

    def place(self, batch: Batch, member: int, poll_timeout_ms: int) -> LandingOrder:
        """Store the order to land a member's share, in a folder that no other attempt has."""
        ...

    def left(self, order: LandingOrder) -> JobLanding | None:
        """What a job that has ended left in the order's folder, durably; None without a result.

        Records are counted in the files. Raises BatchFailedError for a file that isn't whole, or isn't one of landed
        records.
        """
        ...

    def withdraw(self, order: LandingOrder) -> None:
        """Remove what an attempt that failed has left so far; nobody ever names what it may yet write."""
        ...


class Lake(Protocol):
    """The output folders: what deliveries staged, and what was published."""

    def results(self, staging: str) -> tuple[Result, ...]:
        """The results that drivers left below a delivery's staging folder, in order of attempt."""
        ...

    def count(self, staging: str, result: Result) -> Counts:
        """Count rows in the footers of an attempt's files.

        Raises BatchFailedError where a file is missing, has another size, or lies there unnamed.
        """
        ...

    def rejections(self, staging: str, result: Result, most: int) -> Rejections:
        """What an attempt rejected, with its first records in order of topic, partition and offset, so many at most.

        Records that couldn't be decoded are left out: `fail-on-deserialization-failure` has said what becomes of them.
        """
        ...

    def ack_files(self, staging: str) -> tuple[str, ...]:
        """The files of acknowledgements that drivers have left below a delivery's staging folder; whole ones only.

        Raises UnavailableError if they can't be listed.
        """
        ...

    def settled_files(self, staging: str, result: Result) -> tuple[str, ...]:
        """The files of the records that an attempt has done with: acknowledged ones, as its result names them.

        Rejected ones too. Raises BatchFailedError where one is missing or has another size.
        """
        ...

    def take_settled(self, file: str, into: Mapping[TopicPartition, Acknowledgements]) -> None:
        """Enter a file of either kind; entering it again changes nothing.

        Raises BatchFailedError for one that names another record than those awaited, UnavailableError if it can't be
        read.
        """
        ...

    def has_attempt(self, staging: str, attempt: str) -> bool:
        """Whether the attempt's folder is still staged."""
        ...

    def published(self, output: str, batch_id: str) -> Published | None:
        """What is published under this id, from its own manifest."""
        ...

    def rejected(self, output: str, batch_id: str) -> Iterator[Rejected]:
        """The records that a published batch rejected, undecodable ones too, each with its reason; a part at a time.

        None where the batch isn't published.
        """
        ...

    def publish(self, manifest: Manifest, attempt: str) -> None:
        """Make an attempt appear as `<output>/batch_id=<id>`, whole, by one rename, its manifest inside.

        Raises StaleError if that is published already or the attempt is gone.
        """
        ...

    def staged_batches(self, output: str) -> frozenset[str]:
        """The ids of the batches of which anything is staged or set aside."""
        ...

    def set_aside(self, output: str, batch_id: str) -> None:
        """Rename every staging folder of the batch into `_abandoned`, so that nobody can publish it any more."""
        ...

    def clear_staging(self, output: str, batch_id: str) -> None:
        """Remove what a batch that is closed left in staging, and what was set aside of it."""
        ...


@dataclass(frozen=True, slots=True)
class Glance:
    """What the ledger says of a subscription.

    Its version, the open batch, topics once found missing, the topic ids that positions belong to, when its positions
    were last committed, and under which strategy a batch of this subscription last was.
    """

    version: str
    open: Batch | None
    missing: frozenset[str] = frozenset()
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    committed_at: datetime | None = None
    committed_under: CommitStrategy | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """A position whose records were gone, and what the partition held instead: `[earliest, end)`."""

    topic: str
    partition: int
    position: int
    earliest: int
    end: int


Answer = Literal["redeliver", "dead-letter", "skip", "stop"]
"""What a person can have done with a batch that failed as often as it may."""


@dataclass(frozen=True, slots=True)
class Clearance:
    """Who decided about a batch that stopped or asked, when, what, and what they had to say."""

    by: str
    at: datetime
    note: str = ""
    answer: Answer = "redeliver"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of a subscription's history; `since` is when the batch came into its state."""

    batch: Batch
    deliveries: int
    opened_at: datetime
    closed_at: datetime | None
    since: datetime | None = None


class Ledger(Protocol):
    """The record of batches, ranges, deliveries and outcomes. Transitions are refused unless `advance` allows them.

    Every method is one transaction. UnavailableError where the database can't be reached.
    """

    def look(self, subscription: str) -> Glance:
        """The subscription's version and open batch; ask before Kafka is asked."""
        ...

    def note_missing(self, subscription: str, topics: Collection[str]) -> None:
        """Remember topics, chosen partitions (`orders[3]`) or a pattern that a plan missed; known ones change nothing.

        Such a one starts at its earliest record when it appears, whatever `auto.offset.reset` says.
        """
        ...

    def note_topics(self, subscription: str, ids: Mapping[str, str]) -> None:
        """Remember the ids of the topics that the subscription's positions belong to; later ones replace earlier."""
        ...

    def note_commit(
        self, subscription: str, group: str, offsets: Mapping[TopicPartition, int], version: str, at: datetime
    ) -> None:
        """Remember positions that were committed without a batch: an anchor, or an idle group's.

        Nothing changes if the version isn't this one any more: somebody went on since they were committed.
        """
        ...

    def note_losses(self, subscription: str, losses: Collection[Loss]) -> None:
        """Remember lost positions; one that is known already changes nothing."""
        ...

    def losses(self, subscription: str) -> tuple[Loss, ...]:
        """The positions of the subscription that were lost, in order of partition and position."""
        ...

    def open(self, batch: Batch, version: str, published: Published | None = None) -> Batch:
        """Enter a planned batch, or one that is published already, as the lake has it.

        Raises StaleError if the version is no longer this one, or a batch is open.
        """
        ...

    def batch(self, batch_id: str) -> Batch:
        """The batch as it stands. Raises StaleError if the ledger doesn't know it."""
        ...

    def landed(self, batch_id: str, member: int, landed: Landed) -> Batch:
        """Enter a member's landing: the first report counts, later ones change nothing.

        With the last member's report the ends are shrunk to what was landed and the batch becomes landed, or
        empty if no position moves.
        """
        ...

    def reported(self, batch_id: str, member: int) -> bool:
        """Whether this member's landing was reported."""
        ...

    def start_delivery(self, batch_id: str, now: datetime) -> Delivery:
        """Count a delivery, and make the batch processing."""
        ...

    def processed(
        self,
        batch_id: str,
        delivery: Delivery,
        result: Result,
        counts: Counts,
        reached: Collection[Reached] = (),
    ) -> Batch:
        """Enter a delivery's success; the first processed delivery wins, later ones change nothing.

        The batch's ranges shrink to what was `reached` of them; those that aren't named stay.
        """
        ...

    def failed(self, batch_id: str, delivery: Delivery, reason: str) -> Batch:
        """Enter a delivery's failure; the batch becomes failed unless another delivery is further."""
        ...

    def adopt(self, batch_id: str, published: Published) -> Batch:
        """Take what the lake says of the batch for a fact: its ranges, records, files and rows; it is published."""
        ...

    def move(self, batch_id: str, state: State, reason: str | None = None) -> Batch:
        """Advance a batch; a no-op if it is in this state already."""
        ...

    def deliveries(self, batch_id: str) -> int:
        """How often a delivery of the batch was started."""
        ...

    def tries(self, batch_id: str) -> int:
        """How many of its deliveries count towards the limit: those since somebody last had it redelivered."""
        ...

    def received(self, batch_id: str) -> Batch:
        """Enter that the batch's offsets are committed, whatever becomes of its output."""
        ...

    def clear(self, batch_id: str, clearance: Clearance) -> Batch:
        """Have done with a batch that stopped or asks as somebody has answered, and remember who that was.

        A batch that is redelivered has all its tries again.
        """
        ...

    def clearances(self, subscription: str, limit: int) -> tuple[tuple[str, Clearance], ...]:
        """The newest clearances first, each with its batch's id."""
        ...

    def delivery_started(self, batch_id: str, token: str) -> datetime:
        """When this delivery began, in UTC."""
        ...

    def history(self, subscription: str, limit: int) -> tuple[Outcome, ...]:
        """The newest batches first."""
        ...

    def closed_files(self, subscription: str, newest: int) -> dict[str, frozenset[str]]:
        """The URIs of the landed files of each of the newest closed batches, by batch id."""
        ...

    def last_ends(self, subscription: str, group: str) -> dict[TopicPartition, int]:
        """The offsets that were last committed for this group of the subscription, with a batch or without."""
        ...


class Processor(Protocol):
    """Runs the Spark job of a delivery to its end."""

    def run(
        self, manifest_uri: str, timeout: float | None, said: Callable[[str], None], watch: Callable[[], None]
    ) -> None:
        """Run the job on this manifest; each line that it prints goes to `said`.

        While it runs `watch` is called about once a second, from whichever thread; what it raises stops the job, and
        is raised. Raises BatchFailedError when the job fails, OverrunError when it isn't done after `timeout` seconds
        and was stopped; None lets it take its time.
        """
        ...


@dataclass(frozen=True, slots=True)
class Connection:
    """An Airflow connection. Its password and extras are secrets: never print one."""

    id: str
    type: str
    host: str | None
    port: int | None
    login: str | None
    password: str | None
    extra: Mapping[str, object]
    schema: str | None = None

    def __repr__(self) -> str:
        """Name and type; nothing secret."""
        return f"Connection({self.id!r}, {self.type!r})"


class Connections(Protocol):
    """Airflow's connections."""

    def get(self, connection_id: str) -> Connection:
        """The connection of this id. Raises WrongDefinitionError if there is none."""
        ...


SchemaType = Literal["AVRO", "JSON", "PROTOBUF"]


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one refers to, under the name that it is referred to by."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of a Schema Registry, with all that it refers to, directly or not, what is needed first coming first.

    The text is JSON for Avro and JSON Schema, for Protobuf the FileDescriptorProto in base64.
    """

    id: int
    type: str
    text: str
    references: tuple[Reference, ...] = ()


class SchemaRegistry(Protocol):
    """Where Confluent's serializers register schemas.

    UnavailableError where it doesn't answer, or only with an error of its own; WrongDefinitionError where it refuses
    the credentials, or what answers is no Schema Registry.
    """

    def schema(self, schema_id: int, kind: SchemaType) -> RegisteredSchema | None:
        """The schema of this id, whatever its type; None if there is none. `kind` is the type that is expected."""
        ...

    def latest(self, subject: str, kind: SchemaType) -> RegisteredSchema | None:
        """The latest version of a subject; None if there is no such subject."""
        ...
