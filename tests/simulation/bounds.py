"""What an exploration begins with, and how much may go wrong in it."""

from dataclasses import dataclass, field

from simulation.runs import Work
from simulation.script import Grow, Produce, TopicEvent
from simulation.subscriptions import subscription
from simulation.world import Reset
from tidegate.model.batch import Resolution
from tidegate.model.subscription import Subscription


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much may go wrong in one schedule, besides that records arrive and late drivers finish at any time.

    `crashes` are of any runner, `lost` are questions and answers that get lost, `losses` are of the ledger, `expiries`
    of the group's offsets, `resets` are those that a foreign tool may do, `failures` deliveries that fail or reject. A
    switch to another runner costs a preemption unless the present one has ended its run.
    """

    runs: int = 1
    preemptions: int = 2
    crashes: int = 1
    lost: int = 0
    losses: int = 0
    expiries: int = 0
    resets: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Setting:
    """What a schedule begins with: the definition, the events that have happened and those that may at any time.

    `person` is what the second runner does in each of its runs, in place of DAG runs; `answer` what a person says of
    a batch that stops or asks. Where the job `acknowledges`, it does so record by record while it runs; with a `table`
    batches are published by its log.
    """

    subscription: Subscription = field(default_factory=subscription)
    before: tuple[TopicEvent, ...] = (Grow(), Grow(), Produce(0), Produce(1))
    events: tuple[TopicEvent, ...] = (Produce(0),)
    resets: tuple[Reset, ...] = ()
    fencing: bool = True
    orphans: bool = True
    audited_as_fenced: bool | None = None
    person: Work | None = None
    answer: Resolution = Resolution.REDELIVER
    acknowledges: bool = False
    table: bool = False
