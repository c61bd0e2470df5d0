"""The four steps of one subscription, joined to the real Kafka, landing, lake, ledger and Spark."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidegate.config.outputs import output_uri
from tidegate.config.settings import Settings
from tidegate.kafka.null_offset_store import NullOffsetStore
from tidegate.kafka.offsets import KafkaOffsets, PlainFence, TakeFence
from tidegate.kafka.outbox import KafkaOutbox
from tidegate.kafka.source import KafkaSource
from tidegate.kafka.transaction import TransactionalFence
from tidegate.lake.staged_files import StagedFiles
from tidegate.landing.parquet import ParquetLanding
from tidegate.landing.requests import ParquetLandingRequests
from tidegate.ledger.offsets import SqlOffsets
from tidegate.ledger.run_log import SqlRunLog
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Batch, Resolution
from tidegate.model.commit_policy import PositionStore
from tidegate.model.errors import EarlierStepError, OvertakenError, StaleError, TidegateError, TransitionError
from tidegate.model.subscription import CommitFence, Scalar, Subscription
from tidegate.parquet.known_stores import use_connections
from tidegate.ports import (
    Clock,
    Connections,
    Decision,
    Definitions,
    JobLogs,
    Lander,
    OffsetStore,
    Outbox,
    Processor,
    SchemaRegistry,
)
from tidegate.runtime.clock import SystemClock
from tidegate.runtime.definitions import AllDefinitions, NoOtherDefinitions
from tidegate.runtime.lakes import lakes
from tidegate.runtime.processor import processor_of
from tidegate.schemas.lookup import Unregistered
from tidegate.security.client import kafka_client
from tidegate.security.java import java_client
from tidegate.spark.job import JobProcessor
from tidegate.spark.landing import SparkLander, client_environment
from tidegate.spark.logs import FileJobLogs, NamedJobLogs
from tidegate.spark.scripts import landing_job
from tidegate.steps.act import Plan
from tidegate.steps.ask import Question, question
from tidegate.steps.await_records import Awaited
from tidegate.steps.clear import clear
from tidegate.steps.commit import commit_open, receive, settle
from tidegate.steps.context import ProcessContext
from tidegate.steps.land import land
from tidegate.steps.ownership import claim_group
from tidegate.steps.plan import plan, plan_or_await
from tidegate.steps.preview import Preview, preview
from tidegate.steps.process import process
from tidegate.steps.read_and_land import ReadingLander

RunJob = Callable[[str, Mapping[str, str]], Processor]
"""The processor for a job, by the path of its file, with these variables in its environment, which may be secrets."""

_NEWEST = 20  # a run's own batch is among so many
_FENCES: Mapping[CommitFence, TakeFence] = {"transactional": TransactionalFence, "none": PlainFence}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline(ProcessContext):
    """The steps of one subscription against its ports; each is idempotent and takes only the batch's id.

    They are what a run does, and what decides about its batch. The steps of other operations, such as to reset the
    group or to reprocess a batch, take the pipeline as their context.

    Without a lander this process lands, from the source.
    """

    registry: SchemaRegistry = field(default_factory=Unregistered)
    job_logs: JobLogs = field(default_factory=NamedJobLogs)
    lander: Lander | None = None
    definitions: Definitions = field(default_factory=NoOtherDefinitions)

    def plan(self) -> Plan:
        """Find out where things stand and freeze what the batch takes; see `steps.plan`."""
        with self._failure_noted():
            planned = plan(self)
            if planned.batch is None:
                self.note(planned.why)
            return planned

    def preview(self) -> Preview:
        """What the next run would do, of which nothing is done; see `steps.preview`."""
        return preview(self)

    def plan_or_await(self, deadline: datetime | None, may_leave: Callable[[], bool]) -> Plan | Awaited:
        """Plan, unless somebody else may wait for records meanwhile; see `steps.plan`."""
        with self._failure_noted():
            planned = plan_or_await(self, deadline, may_leave)
            if isinstance(planned, Plan) and planned.batch is None:
                self.note(planned.why)
            return planned

    def land(self, batch_id: str, member: int) -> Batch:
        """Land the share of one member; see `steps.land`."""
        with self._failure_noted(batch_id):
            here = ReadingLander(self.source, self.landing, self.clock, self.subscription.poll_timeout_ms)
            return land(self, batch_id, member, self.lander or here)

    def process(self, batch_id: str) -> Batch | None:
        """Deliver the batch to Spark; see `steps.process`."""
        with self._failure_noted(batch_id):
            return process(self, batch_id)

    def receive(self, batch_id: str) -> Batch | None:
        """Commit a batch on receipt, where that is its strategy; see `steps.commit`."""
        with self._failure_noted(batch_id):
            return receive(self, batch_id)

    def settle(self, batch_id: str) -> Batch | None:
        """Commit or publish a batch, as its own strategy has it; see `steps.commit`."""
        with self._failure_noted(batch_id):
            batch = settle(self, batch_id)
            self.note(f"batch {batch_id} is {batch.condition if batch else 'empty'}")
            return batch

    def commit_open(self, batch_id: str | None = None) -> Batch:
        """Commit the batch that waits for nothing else, if it is this one; see `steps.commit`."""
        return commit_open(self, batch_id)

    def published(self, limit: int) -> tuple[Batch, ...]:
        """Those of the subscription's newest batches that are in the lake, the newest first."""
        entries = self.ledger.history(self.subscription.name, limit)
        return tuple(entry.batch for entry in entries if entry.batch.is_published)

    def question(self) -> Question | None:
        """What a person is to decide, if there is anything; see `steps.ask`."""
        return question(self)

    def clear(
        self, by: str, note: str, answer: Resolution = Resolution.REDELIVER, batch_id: str | None = None
    ) -> Batch:
        """Let the subscription go on with the batch that stopped it, if it is this one; see `steps.clear`.

        That may be one of the name that the subscription had before.
        """
        snapshot = self.ledger.look(self.subscription.name)
        if snapshot.open is None:
            claim_group(self, snapshot)
        decision = Decision(by, self.ledger.now(), note, answer)
        return clear(self, decision, batch_id)

    def note(self, said: str, error: str | None = None) -> None:
        """Note how a run ends, for whoever asks; what it did stays done even if that can't be written."""
        with suppress(TidegateError):
            self.run_log.ended(self.subscription.name, said, error)

    def note_stale(self, error: TidegateError, seconds: float, batch_id: str | None) -> None:
        """Note a run that ended by something stale, in a step that took so long, unless one has succeeded meanwhile.

        That is since its batch was opened, where it has one.
        """
        name, begun = self.subscription.name, None
        with suppress(TidegateError):
            if batch_id is None:
                begun = self.ledger.now() - timedelta(seconds=seconds)
            else:
                newest = self.ledger.history(name, _NEWEST)
                begun = next((each.opened_at for each in newest if each.batch.id == batch_id), None)
            self.run_log.ended(name, str(error).partition("\n")[0], type(error).__name__, begun)

    @contextmanager
    def _failure_noted(self, batch_id: str | None = None) -> Iterator[None]:
        """What the run log learns of a step that fails, unless a run overtook it, or a step has failed before it.

        What is stale counts as a failure as well, as each next run may end so, unless a run has succeeded meanwhile.
        """
        began = self.clock.monotonic()
        try:
            yield
        except (OvertakenError, EarlierStepError):
            raise
        except (StaleError, TransitionError) as error:
            self.note_stale(error, self.clock.monotonic() - began, batch_id)
            raise
        except TidegateError as error:
            self.note(str(error).partition("\n")[0], type(error).__name__)
            raise
        except Exception as error:  # a fault of ours, or of a library: its text may hold anything
            self.note("it failed unexpectedly: see the log of the run", type(error).__name__)
            raise


@contextmanager
def open_pipeline(
    subscription: Subscription,
    settings: Settings,
    connections: Connections,
    processor: Processor | None = None,
    run_job: RunJob | None = None,
    *,
    job_logs: JobLogs | None = None,
    clock: Clock | None = None,
) -> Iterator[Pipeline]:
    """Join a subscription to the real systems; nothing is connected before it is used, and all is closed after.

    Without a processor the Spark job runs as a child process, by the type of the subscription's Spark connection; so
    does the job that lands, without `run_job`. What jobs print is kept in files, without `job_logs`.
    """
    client = _client(subscription, connections)
    clock = clock or SystemClock()
    use_connections(connections)
    with ExitStack() as stack:
        source = KafkaSource(
            client,
            isolation_level=subscription.consumer.isolation_level,
            timeout=subscription.poll_timeout_ms / 1000,
        )
        stack.callback(source.close)
        offsets, elsewhere = stack.enter_context(_offset_stores(subscription, settings, client))
        yield Pipeline(
            subscription=subscription,
            output=output_uri(settings.home, subscription.processing),
            source=source,
            offsets=offsets,
            elsewhere=elsewhere,
            landing=ParquetLanding(settings.landing),
            lake=lakes(connections, subscription.processing.schema_evolution),
            staged=StagedFiles(),
            ledger=SqlLedger(settings.ledger),
            run_log=SqlRunLog(settings.ledger),
            processor=processor or processor_of(subscription, settings, connections),
            clock=clock,
            job_logs=job_logs or FileJobLogs(settings.logs),
            registry=_registry(connections, subscription.deserialization.registry),
            lander=_lander(subscription, settings, connections, source, run_job),
            definitions=AllDefinitions(settings),
        )


@contextmanager
def open_outbox(subscription: Subscription, connections: Connections) -> Iterator[Outbox]:
    """Where a subscription's records are produced to outside of a commit; connected once it is used."""
    outbox = KafkaOutbox(_client(subscription, connections), subscription.commit_timeout_ms / 1000)
    with closing(outbox):
        yield outbox


def _client(subscription: Subscription, connections: Connections) -> dict[str, Scalar]:
    return {**kafka_client(connections.get(subscription.connection)), **subscription.consumer.librdkafka}


@contextmanager
def _offset_stores(
    subscription: Subscription, settings: Settings, client: Mapping[str, Scalar]
) -> Iterator[tuple[OffsetStore, OffsetStore | None]]:
    """Where the commit strategy keeps the group's positions, and where it doesn't."""
    group = subscription.consumer.group_id
    commit_timeout = subscription.commit_timeout_ms / 1000
    kafka = KafkaOffsets(
        client,
        group=group,
        poll_timeout=subscription.poll_timeout_ms / 1000,
        commit_timeout=commit_timeout,
        take_fence=_FENCES[subscription.commit_fence],
    )
    outbox = KafkaOutbox(client, commit_timeout)
    checkpoints = SqlOffsets(settings.ledger, subscription.name, group, outbox)
    with closing(kafka), closing(outbox):
        match subscription.commit_policy.store:
            case PositionStore.KAFKA:
                yield kafka, checkpoints
            case PositionStore.LEDGER:
                yield checkpoints, kafka
            case PositionStore.NONE:
                yield NullOffsetStore(outbox), None


def _lander(
    subscription: Subscription,
    settings: Settings,
    connections: Connections,
    source: KafkaSource,
    run_job: RunJob | None,
) -> Lander | None:
    """What lands instead of this process; None for the landing engine python."""
    if subscription.landing_engine == "python":
        return None

    def by_child(job: str, environment: Mapping[str, str]) -> Processor:
        return JobProcessor(connections, subscription.processing.connection, job, environment, settings.spark_jobs)

    def begin() -> Processor:
        client = {
            **java_client(connections.get(subscription.connection)),
            **subscription.consumer.java,
            "group.id": subscription.consumer.group_id,
            "isolation.level": subscription.consumer.isolation_level,
        }
        return (run_job or by_child)(str(landing_job()), client_environment(client))

    return SparkLander(
        requests=ParquetLandingRequests(settings.landing),
        begin=begin,
        source=source,
        poll_timeout_ms=subscription.poll_timeout_ms,
        job_timeout=subscription.consumer.max_poll_interval_ms / 1000,
    )


def _registry(connections: Connections, connection_id: str | None) -> SchemaRegistry:
    if connection_id is None:
        return Unregistered()
    from tidegate.kafka.schema_registry import ConfluentRegistry  # noqa: PLC0415 (its HTTP and OAuth take their time)

    return ConfluentRegistry(connections, connection_id)
