"""What the DAGs for operators say of themselves, and their forms."""

from collections.abc import Mapping
from dataclasses import dataclass

from airflow.sdk import Param

from tidegate_airflow.operators import CLEAR, COMMIT, REDRIVE, REPLAY, RESET


@dataclass(frozen=True, slots=True)
class OperationForm:
    """The form of a DAG for operators: its params beside `subscription`, and what the DAG says it does."""

    dag_id: str
    description: str
    text: str
    params: Mapping[str, Param]

    @property
    def names(self) -> tuple[str, ...]:
        """Of all its params."""
        return ("subscription", *self.params)


_NOTE = Param(None, type=["null", "string"], title="Note", description="Why; the ledger keeps it.")
_PREVIEWED = Param(
    None,
    type=["null", "string"],
    title="Previewed",
    description="Given by the page's preview: the run does nothing if the action comes to something else by then.",
)
_ANSWERS: Mapping[str, str] = {
    "redeliver": "deliver it again, as often as at first",
    "dead-letter": "send all of its records to the dead-letter topic, and go on after it",
    "skip": "publish nothing of it, and go on after it",
    "stop": "leave it stopped",
}
_CLEAR_TEXT = """\
Decides what becomes of a subscription's open batch, as `tidegate clear` does, mostly of one that is **stopped**, or
that **asks**; correct what is wrong first. It also takes one that has landed, has retries left, or is being delivered,
which counts as failed then. `dead-letter` and `skip` are final. The run fails, and changes nothing, if no batch is
open, or its output is settled.

| answer | what becomes of the batch |
|---|---|
| `redeliver` | the next run of the subscription delivers it again, as often as at first |
| `dead-letter` | the next run sends all of its records to the dead-letter topic, and goes on after it |
| `skip` | the next run goes on after it, and publishes nothing of it |
| `stop` | it is stopped, or stays so |

Under `commit-strategy: manual` the subscription goes on after `dead-letter` or `skip` once the batch is committed. The
ledger keeps the answer, the note and who triggered this run; `tidegate status NAME --json` shows them. A run decides
once: one that is cleared in Airflow and runs again is refused.
"""
_COMMIT_TEXT = """\
Commits the offsets of the batch that waits for its commit, as `tidegate commit` does: under `commit-strategy: manual`,
or ahead of the next run under `on-next-poll`. The run fails, and changes nothing, if no batch waits, or if it was
cleared in Airflow and runs again.
"""
_RESET_TEXT = """\
Moves the positions of a subscription's consumer group, as `tidegate group reset` does: its next run reads from there,
in batches of its own. Say once where to: `to`, `offsets` or `by`. What is passed over is read by nobody; what is read
again is published again, beside what was published before.

The run fails, and moves nothing, while a batch is open, unless that may be abandoned; while the group has live members;
for an offset that its partition doesn't hold. With `dry_run` it only says what would be moved. The ledger keeps who
triggered this run, the note, and each position before and after; `tidegate status NAME` shows them. A run decides once.
"""
_RESET_PARAMS: Mapping[str, Param] = {
    "to": Param(
        None,
        type=["null", "string"],
        title="To",
        description="earliest, latest, or a time in ISO 8601, UTC without a zone: the first record at or after it, or "
        "the end.",
    ),
    "offsets": Param(
        None,
        type=["null", "string"],
        format="multiline",
        title="Offsets",
        description="Lines topic,partition,offset, as in orders,0,1200: the next offset of each.",
    ),
    "by": Param(None, type=["null", "integer"], title="By", description="So many offsets forward, or, below 0, back."),
    "partitions": Param(
        None,
        type=["null", "string"],
        title="Partitions",
        description="Of these alone: topics, or as in orders:0,2 some of one, between blanks. Others stay where they "
        "are.",
    ),
    "abandon": Param(
        default=False,
        type="boolean",
        title="Abandon an open batch",
        description="Nothing of it is published, and its records are read again unless the group is reset past them.",
    ),
    "dry_run": Param(default=False, type="boolean", title="Dry run", description="Only say what would be moved."),
    "note": _NOTE,
    "previewed": _PREVIEWED,
}

_REPLAY_TEXT = """\
Reads a range of a subscription once more, through its transform, into another output, as `tidegate replay` does; the
group's positions stay as they are. `from` is inclusive, `to` exclusive. The run lasts until the replay is done; one
that was cut short goes on when another run is triggered with the conf of that run; until then no other replay writes
into its output.
"""
_BOUND = (
    "earliest, latest, a time in ISO 8601, UTC without a zone, or lines topic,partition,offset, as in orders,0,1200."
)
_REPLAY_PARAMS: Mapping[str, Param] = {
    "from": Param(
        type="string", minLength=1, format="multiline", title="From", description=f"Where to begin: {_BOUND}"
    ),
    "to": Param(type="string", minLength=1, format="multiline", title="To", description=f"Where to end: {_BOUND}"),
    "output": Param(
        type="string",
        minLength=1,
        title="Output",
        description="As in a definition: a folder, URI or catalog.namespace.table that is no subscription's output.",
    ),
    "note": _NOTE,
    "previewed": _PREVIEWED,
}
_REDRIVE_TEXT = """\
Produces dead letters of a subscription again to those of its topics that they came from, each once, as
`tidegate dead-letters redrive` does; correct what is wrong first. All that is said must hold for a letter. With
`dry_run` it only says what would be produced. The run fails, and produces nothing, if no letter is to go. Letters of
other topics, and other targets, are for the command line.
"""
_REDRIVE_PARAMS: Mapping[str, Param] = {
    "reason": Param(None, type=["null", "string"], title="Reason", description="Text that the letter's reason has."),
    "since": Param(
        None,
        type=["null", "string"],
        title="Since",
        description="Of the original record's timestamp, inclusive: a time in ISO 8601, UTC without a zone.",
    ),
    "until": Param(None, type=["null", "string"], title="Until", description="The same, exclusive."),
    "topic": Param(None, type=["null", "string"], title="Topic", description="The topic that the letter came from."),
    "partition": Param(
        None, type=["null", "integer"], minimum=0, title="Partition", description="The partition that it came from."
    ),
    "limit": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        title="Limit",
        description="So many letters at most, by partition and offset.",
    ),
    "again": Param(default=False, type="boolean", title="Again", description="Those too that were redriven before."),
    "ends": Param(
        None,
        type=["null", "string"],
        format="multiline",
        title="Ends",
        description="Lines partition,offset of the dead-letter topic: only letters before these offsets.",
    ),
    "dry_run": Param(default=False, type="boolean", title="Dry run", description="Only say what would be produced."),
    "previewed": _PREVIEWED,
}

_BATCH = Param(
    None,
    type=["null", "string"],
    title="Batch",
    description="Its id, as `tidegate status` shows it: if it is another batch's turn by then, nothing is done. "
    "Empty: whichever it is when the run starts.",
)
_ANSWER = Param("redeliver", type="string", enum=list(_ANSWERS), values_display=dict(_ANSWERS), title="Answer")
CLEAR_FORM = OperationForm(
    CLEAR,
    "Go on with a batch that stopped its subscription",
    _CLEAR_TEXT,
    {"answer": _ANSWER, "batch": _BATCH, "note": _NOTE, "previewed": _PREVIEWED},
)
COMMIT_FORM = OperationForm(
    COMMIT, "Commit the batch that waits for its commit", _COMMIT_TEXT, {"batch": _BATCH, "previewed": _PREVIEWED}
)
RESET_FORM = OperationForm(RESET, "Move a group's positions", _RESET_TEXT, _RESET_PARAMS)
REPLAY_FORM = OperationForm(REPLAY, "Read a range once more, into another output", _REPLAY_TEXT, _REPLAY_PARAMS)
REDRIVE_FORM = OperationForm(REDRIVE, "Produce dead letters again", _REDRIVE_TEXT, _REDRIVE_PARAMS)
