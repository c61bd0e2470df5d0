"""From the list to the cure of each broken state: what is clicked, and what is seen then; docs/page.md has the same."""

from collections.abc import Mapping
from dataclasses import dataclass, field

THE_NAME = "its name"
"""The link in the list."""
MOST_CLICKS = 3


@dataclass(frozen=True)
class ClickPath:
    """The clicks by which whoever looks at the list gets to the cause and to the cure, and words of both.

    The cause is in a panel behind the first click, the cure is on the page behind the last one. `fields` are filled in
    between.
    """

    state: str
    subscription: str
    clicks: tuple[str, ...]
    panel: str
    cause: str
    cure: str
    fields: Mapping[str, str] = field(default_factory=dict)


PATHS = (
    ClickPath(
        state="No broker answers",
        subscription="shipments",
        clicks=(THE_NAME,),
        panel="verdict",
        cause="the broker didn't list the topics",
        cure="look at the brokers, and at the connection kafka_warehouse",
    ),
    ClickPath(
        state="The job fails, and the batch is stopped",
        subscription="payments",
        clicks=(THE_NAME, "Clear", "Preview"),
        panel="failures",
        cause="amount '12,50' is no DECIMAL(12,2)",
        cure="delivered again",
        fields={"answer": "redeliver"},
    ),
    ClickPath(
        state="The batch waits for an answer",
        subscription="orders",
        clicks=(THE_NAME, "Clear", "Preview"),
        panel="failures",
        cause="amount '12,50' is no DECIMAL(12,2)",
        cure="dead-letter",
        fields={"answer": "dead-letter"},
    ),
    ClickPath(
        state="Records are gone",
        subscription="stock",
        clicks=(THE_NAME, "Reset the group", "Preview"),
        panel="verdict",
        cause="outside of what the partition holds",
        cure="2 positions of 2 move",
        fields={"to": "earliest"},
    ),
    ClickPath(
        state="The definition is broken",
        subscription="refunds",
        clicks=(THE_NAME,),
        panel="definition",
        cause="comit-strategy isn't a property; did you mean commit-strategy?",
        cure="correct the file",
    ),
)
