"""Context: what the steps of one subscription work with."""

from dataclasses import dataclass

from tidegate.model.subscription import Subscription
from tidegate.ports import (
    Clock,
    Definitions,
    JobLogs,
    Lake,
    Landing,
    Ledger,
    OffsetStore,
    Processor,
    RecordSource,
    RunLog,
    SchemaRegistry,
    StagedOutput,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The ports of plan and commit, which run no job.

    `output` is an absolute URI; `elsewhere` is the store of positions that the commit strategy doesn't name, if there
    is one.
    """

    subscription: Subscription
    output: str
    source: RecordSource
    offsets: OffsetStore
    landing: Landing
    lake: Lake
    staged: StagedOutput
    ledger: Ledger
    run_log: RunLog
    clock: Clock
    definitions: Definitions
    elsewhere: OffsetStore | None = None

    @property
    def place(self) -> str:
        """`subscription flights, group flights-lake`, as messages name it."""
        return self.subscription.place


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessContext(Context):
    """What process works with beside those: it alone runs jobs."""

    processor: Processor
    job_logs: JobLogs
    registry: SchemaRegistry
