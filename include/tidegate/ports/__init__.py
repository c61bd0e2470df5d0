"""What the four steps need of the world: each port has a real adapter and an in-memory double in `testing`."""

from tidegate.ports.clock import Clock
from tidegate.ports.connections import Connection, Connections
from tidegate.ports.definitions import DefinedGroup, Definitions
from tidegate.ports.generations import FIRST, Generation, GenerationOutcome, Generations, Made, ReprocessedBatch
from tidegate.ports.lake import Lake
from tidegate.ports.landing import Lander, Landing, LandingRequests, LandingWriter, Side
from tidegate.ports.ledger import (
    Decision,
    DeliveryAge,
    ExpiredBatch,
    GroupHolder,
    GroupReset,
    HistoryEntry,
    Ledger,
    LedgerSnapshot,
    Loss,
    PositionChange,
    Replay,
)
from tidegate.ports.offsets import Committed, Fence, OffsetStore, Outbox
from tidegate.ports.processor import JobLog, JobLogs, Processor
from tidegate.ports.run_log import Contact, LastRun, RunLog
from tidegate.ports.schema_registry import Reference, RegisteredSchema, SchemaRegistry, SchemaType
from tidegate.ports.source import Reader, RecordSource
from tidegate.ports.staged_output import StagedOutput
from tidegate.ports.stored_definitions import DefinitionChange, DefinitionState, StoredDefinition
from tidegate.ports.table_log import DataFile, LogConflictError, Record, TableLog, TableSnapshot
from tidegate.ports.table_upkeep import TableUpkeep, Upkeep
from tidegate.ports.watched_cluster import WatchedCluster
