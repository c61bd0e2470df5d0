"""The ledger's tables as the code reads and writes them; the migrations make them.

Every name begins with `tidegate_`, so that the ledger may share a database with Airflow or anything else.
"""

from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)
from sqlalchemy.engine import Dialect

metadata = MetaData()


class Instant(TypeDecorator[datetime]):
    """A point in time in UTC; SQLite keeps no time zone, so it is taken off and put back on."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To the database. Raises ValueError for a time without a time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone: hand the ledger a time in UTC")
        in_utc = value.astimezone(UTC)
        return in_utc.replace(tzinfo=None) if dialect.name == "sqlite" else in_utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - SQLAlchemy's
        """From the database, always in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


ledger = Table(
    "tidegate_ledger",
    metadata,
    Column("identity", String(32), primary_key=True),  # drawn when the database is made: another one, another ledger
)

subscriptions = Table(
    "tidegate_subscriptions",
    metadata,
    Column("name", String(250), primary_key=True),
    Column("version", BigInteger, nullable=False),  # how many writes changed one of its batches
)

missing = Table(
    "tidegate_missing",  # topics and patterns that a plan found missing
    metadata,
    Column("subscription", String(250), primary_key=True),
    Column("topic", Text, primary_key=True),  # patterns may be long
    Column("noted_at", Instant, nullable=False),
)

topics = Table(
    "tidegate_topics",  # which topic of a name the positions belong to: a recreated one has another id
    metadata,
    Column("subscription", String(250), primary_key=True),
    Column("topic", String(250), primary_key=True),
    Column("topic_id", String(64), nullable=False),
)

groups = Table(
    "tidegate_groups",  # whose a group is, and the cluster that its positions belong to
    metadata,
    Column("subscription", String(250), primary_key=True),
    Column("group_id", Text, primary_key=True),
    Column("cluster_id", String(250)),  # none for a cluster that tells none, and before this was kept
    Column("version", BigInteger, nullable=False),  # what was committed before this version is another cluster's
    Column("accepted_by", Text),  # who said that the cluster is another one now
    Column("accepted_at", Instant),
    Column("store", String(20)),  # which one has its positions, once one has any
    Column("moved_by", Text),  # who moved them there, if a person did
    Column("moved_at", Instant),
)

Index("tidegate_groups_cluster", groups.c.group_id, groups.c.cluster_id, unique=True)

positions = Table(
    "tidegate_positions",  # what was last committed without a batch: anchors, and positions of idle groups
    metadata,
    Column("subscription", String(250), primary_key=True),
    Column("group_id", Text, primary_key=True),
    Column("topic", String(250), primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("offset", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),  # the subscription's, when it was committed
    Column("committed_at", Instant, nullable=False),
)

checkpoints = Table(
    "tidegate_checkpoints",  # positions of a group whose subscription keeps them here and not in Kafka
    metadata,
    Column("subscription", String(250), primary_key=True),
    Column("group_id", Text, primary_key=True),
    Column("topic", String(250), primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("offset", BigInteger, nullable=False),
    Column("metadata", Text, nullable=False),  # the receipt
    Column("leader_epoch", Integer),
    Column("committed_at", Instant, nullable=False),
)

states = Table(
    "tidegate_states",  # what a transform has made of all records up to these positions, and who may move both
    metadata,
    Column("subscription", String(250), primary_key=True),
    Column("group_id", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False),  # one more with each fence: only the newest may commit
    Column("state", Text),  # JSON; none before a transform gave one
    Column("since", Instant),  # when it was stored
)

contacts = Table(
    "tidegate_contacts",  # when a broker last answered a run, by this database's clock
    metadata,
    Column("subscription", String(250), primary_key=True),
    Column("since", Instant, nullable=False),
    Column("has_answered", Boolean, nullable=False),  # if never, since when it was tried
)

runs = Table(
    "tidegate_runs",  # how the newest run of each subscription ended, by this database's clock
    metadata,
    Column("subscription", String(250), primary_key=True),
    Column("ended_at", Instant, nullable=False),
    Column("said", Text, nullable=False),
    Column("error", String(50)),  # its class
    Column("failing_since", Instant),  # when the first of the failed runs in a row ended
)

observations = Table(
    "tidegate_observations",  # how each subscription was last seen, by this database's clock
    metadata,
    Column("subscription", String(250), primary_key=True),
    Column("observed_at", Instant, nullable=False),
    Column("document", Text, nullable=False),  # JSON, as `tidegate status --json` prints it
    Column("summary", Text),  # the document without what is long
)

lag_samples = Table(
    "tidegate_lag_samples",
    metadata,
    Column("subscription", String(250), primary_key=True),
    Column("observed_at", Instant, primary_key=True),
    Column("lag", BigInteger),  # none where Kafka couldn't be asked
    Column("lag_seconds", Float),  # how long the oldest record had waited, where that was known
)

totals = Table(
    "tidegate_totals",  # what was counted; they only grow
    metadata,
    Column("subscription", String(250), primary_key=True),
    Column("name", String(50), primary_key=True),  # as tidegate.ledger.totals.Total
    Column("label", String(50), primary_key=True),  # empty for none
    Column("value", Double, nullable=False),
)

alerts = Table(
    "tidegate_alerts",  # the states that hold, and when each notifier was told, by this database's clock
    metadata,
    Column("subscription", String(250), primary_key=True),
    Column("kind", String(20), primary_key=True),  # stopped, lag.ms, ...
    Column("notifier", String(500), primary_key=True),
    Column("state", Text, nullable=False),  # which of its kind: that of another batch is told again
    Column("seen_at", Instant, nullable=False),
    Column("claim", String(32)),  # the token of who is telling it, and since when
    Column("claimed_at", Instant),
    Column("told_at", Instant),
)

resets = Table(
    "tidegate_resets",  # who reset a group, when and why
    metadata,
    Column("id", String(32), primary_key=True),
    Column("subscription", String(250), nullable=False),
    Column("group_id", Text, nullable=False),
    Column("reset_by", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("gives_up", String(64)),  # the batch that was open
    Column("begun_at", Instant, nullable=False),
    Column("done_at", Instant),  # none until the positions were committed
)

Index("tidegate_resets_subscription", resets.c.subscription, resets.c.begun_at)

position_changes = Table(
    "tidegate_position_changes",  # what a reset moves
    metadata,
    Column("reset_id", String(32), ForeignKey("tidegate_resets.id"), primary_key=True),
    Column("topic", String(250), primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("before", BigInteger),  # none for a partition that had no position
    Column("after", BigInteger, nullable=False),
)

replays = Table(
    "tidegate_replays",  # what is read once more, into another output
    metadata,
    Column("name", String(250), primary_key=True),  # the derived subscription's
    Column("subscription", String(250), nullable=False),
    Column("output", Text, nullable=False),
    Column("asked", Text, nullable=False),  # what was wanted, in words
    Column("replayed_by", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("begun_at", Instant, nullable=False),
    Column("done_at", Instant),
)

replay_ranges = Table(
    "tidegate_replay_ranges",
    metadata,
    Column("name", String(250), ForeignKey("tidegate_replays.name"), primary_key=True),
    Column("topic", String(250), primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("start_offset", BigInteger, nullable=False),
    Column("end_offset", BigInteger, nullable=False),
)

definitions = Table(
    "tidegate_definitions",  # those that aren't files
    metadata,
    Column("name", String(250), primary_key=True),
    Column("document", Text, nullable=False),  # JSON, as text
    Column("asked", JSON, nullable=False),  # what its client gave, in the client's own terms
    Column("revision", Integer, nullable=False),
    Column("state", String(20), nullable=False),
    Column("changed_by", Text, nullable=False),
    Column("changed_at", Instant, nullable=False),
)

definition_changes = Table(
    "tidegate_definition_changes",  # their audit trail
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("name", String(250), nullable=False, index=True),
    Column("what", String(20), nullable=False),
    Column("document", Text),  # none once it was removed
    Column("changed_by", Text, nullable=False),
    Column("changed_at", Instant, nullable=False),
)

losses = Table(
    "tidegate_losses",  # positions whose records were gone
    metadata,
    Column("subscription", String(250), primary_key=True),
    Column("topic", String(250), primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("position", BigInteger, primary_key=True),
    Column("earliest", BigInteger, nullable=False),
    Column("end_offset", BigInteger, nullable=False),
    Column("noted_at", Instant, nullable=False),
)

batches = Table(
    "tidegate_batches",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("subscription", String(250), ForeignKey("tidegate_subscriptions.name"), nullable=False),
    Column("number", BigInteger, nullable=False),  # the subscription's version that opened it: the order of history
    Column("opening", Integer, nullable=False),  # 1, and one more each time that the same id is opened again
    Column("group_id", Text, nullable=False),
    Column("receipt", Text, nullable=False),
    Column("members", Integer, nullable=False),
    Column("output", Text, nullable=False),
    Column("partition_by", JSON, nullable=False),
    Column("commit_strategy", String(20), nullable=False),  # that of its plan
    Column("state", String(20), nullable=False),
    Column("resolution", String(20)),  # what is to be done with it, once it failed
    Column("outcome", String(20)),  # how it ended
    Column("since", Instant),  # when it came into this state; none for what was written before this was kept
    Column("offsets_committed", Boolean, nullable=False),
    Column("reason", Text),
    Column("winner", String(32)),  # the token of the delivery that was processed first
    Column("attempt", Text),
    Column("rows", BigInteger),
    Column("rejected", BigInteger),
    Column("filtered", BigInteger),  # none for what was processed before this was kept
    Column("seal", String(50)),  # the checksum of the list of its output's files; none before they had any
    Column("opened_at", Instant, nullable=False),
    Column("landed_at", Instant),
    Column("closed_at", Instant),
)

Index("tidegate_batches_history", batches.c.subscription, batches.c.number, unique=True)
_unclosed = batches.c.closed_at.is_(None)
Index(
    "tidegate_batches_open",  # at most one open batch for each subscription
    batches.c.subscription,
    unique=True,
    sqlite_where=_unclosed,
    postgresql_where=_unclosed,
)
Index(
    "tidegate_batches_committed",  # the newest of them says where the group stands, however many weren't
    batches.c.subscription,
    batches.c.number,
    sqlite_where=text("offsets_committed = 1"),  # as SQLAlchemy asks for a truth there
    postgresql_where=batches.c.offsets_committed,
)

ranges = Table(
    "tidegate_ranges",
    metadata,
    Column("batch_id", String(64), ForeignKey("tidegate_batches.id"), primary_key=True),
    Column("topic", String(250), primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("place", Integer, nullable=False),  # its place in the plan
    Column("member", Integer),  # none for a partition that nobody reads in this batch
    Column("start_offset", BigInteger, nullable=False),
    Column("planned_end", BigInteger, nullable=False),
    Column("end_offset", BigInteger, nullable=False),  # as far as it was landed
    Column("records", BigInteger),
    Column("start_epoch", Integer),  # leader epochs, where they are known
    Column("end_epoch", Integer),
)

landings = Table(
    "tidegate_landings",
    metadata,
    Column("batch_id", String(64), ForeignKey("tidegate_batches.id"), primary_key=True),
    Column("member", Integer, primary_key=True),
    Column("reported_at", Instant, nullable=False),
)

files = Table(
    "tidegate_files",
    metadata,
    Column("batch_id", String(64), ForeignKey("tidegate_batches.id"), primary_key=True),
    Column("member", Integer, primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("uri", Text, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("checksum", String(50)),  # none for what was landed before files had any
)

clearances = Table(
    "tidegate_clearances",  # who decided about a batch that stopped or asked, and what
    metadata,
    Column("batch_id", String(64), ForeignKey("tidegate_batches.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("deliveries", Integer, nullable=False),  # how many had been started: once redelivered they count no longer
    Column("answer", String(20), nullable=False),
    Column("cleared_by", Text, nullable=False),
    Column("cleared_at", Instant, nullable=False),
    Column("note", Text, nullable=False),
)

operations = Table(
    "tidegate_operations",  # the runs by which somebody cleared or committed: each decides once
    metadata,
    Column("run", Text, primary_key=True),  # as Airflow names it: the DAG and its run
    Column("operated_by", Text, nullable=False),
    Column("begun_at", Instant, nullable=False),
)

deliveries = Table(
    "tidegate_deliveries",
    metadata,
    Column("token", String(32), primary_key=True),
    Column("batch_id", String(64), ForeignKey("tidegate_batches.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("opening", Integer, nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("alive_at", Instant),  # its last sign of life; these instants are all the database's
    Column("finished_at", Instant),
    Column("outcome", String(20)),  # processed, failed, late (processed after another had won)
    Column("reason", Text),
    Column("cause", String(20)),  # what failed it, as tidegate.model.batch.Cause
    UniqueConstraint("batch_id", "number", name="tidegate_deliveries_number"),
)

generations = Table(
    "tidegate_generations",  # batches that are made once more, for a transform that has changed
    metadata,
    Column("batch_id", String(64), ForeignKey("tidegate_batches.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),  # 2, and one more each time
    Column("output", Text, nullable=False),
    Column("begun_by", Text, nullable=False),
    Column("begun_at", Instant, nullable=False),
    Column("note", Text, nullable=False),
    Column("tokens", Text, nullable=False),  # those of its deliveries, apart by spaces; the last one counts
    Column("outcome", String(20)),
    Column("ended_at", Instant),
    Column("rows", BigInteger),
    Column("rejected", BigInteger),
    Column("filtered", BigInteger),
)

redriving = Table(
    "tidegate_redriving",  # how often the turn to redrive a dead-letter topic was taken
    metadata,
    Column("topic", String(250), primary_key=True),
    Column("turn", BigInteger, nullable=False),
)

redrives = Table(
    "tidegate_redrives",  # the chunks in which dead letters are redriven
    metadata,
    Column("token", String(32), primary_key=True),
    Column("after", String(32), nullable=False),  # the token that stood in Kafka when it was noted
    Column("topic", String(250), nullable=False),  # the dead-letter topic, and the id that the cluster gave it
    Column("topic_id", String(64), nullable=False),
    Column("subscription", String(250), nullable=False),
    Column("redriven_by", Text, nullable=False),
    Column("state", String(20), nullable=False),  # begun, redriven, unknown
    Column("noted_at", Instant, nullable=False),
    Column("closed_at", Instant),
)

Index("tidegate_redrives_topic", redrives.c.topic, redrives.c.state)

redriven = Table(
    "tidegate_redriven",  # the dead letters of each chunk
    metadata,
    Column("token", String(32), ForeignKey("tidegate_redrives.token"), primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("offset", BigInteger, primary_key=True),
    Column("destination", String(250), nullable=False),
)

Index("tidegate_redriven_place", redriven.c.offset, redriven.c.partition)
