"""What is explored: the plain bounds, and smaller ones with one more kind of mishap each."""

from tidegate.positions import TopicPartition
from tidegate.testing.simulation.exploration import Bounds, Setting
from tidegate.testing.simulation.script import TOPIC, Grow, Produce
from tidegate.testing.simulation.subscriptions import subscription
from tidegate.testing.simulation.world import Reset

_FIRST, _SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)

PLAIN = Setting()
RESETS = Setting(resets=(Reset(((_FIRST, 0), (_SECOND, 0))), Reset(((_FIRST, 0),))))
NEW_PARTITION = Setting(events=(Grow(), Produce(2)))
FENCELESS = Setting(fencing=False, subscription=subscription(commit_fence="none"))

QUICK: dict[str, tuple[Setting, Bounds]] = {
    "a lost question or answer, and a crash": (PLAIN, Bounds(lost=1, preemptions=0)),
    "the ledger lost": (PLAIN, Bounds(losses=1, preemptions=1, crashes=0)),
    "the ledger lost, a crash and a new partition": (NEW_PARTITION, Bounds(losses=1, preemptions=0)),
    "a foreign reset of all or some partitions": (RESETS, Bounds(resets=1, preemptions=1, crashes=0)),
    "a foreign reset and a crash": (RESETS, Bounds(resets=1, preemptions=0)),
    "a new partition": (NEW_PARTITION, Bounds(preemptions=1, crashes=0)),
    "expired offsets and a crash": (PLAIN, Bounds(expiries=1, preemptions=0)),
    "no fence, and a commit for some partitions": (FENCELESS, Bounds(lost=1, preemptions=0)),
}
"""Seconds each."""

DEEP: dict[str, tuple[Setting, Bounds]] = {
    "two runs each": (PLAIN, Bounds(runs=2, preemptions=1)),
    "the ledger lost and a crash": (PLAIN, Bounds(losses=1, preemptions=1)),
    "a foreign reset, a crash and a switch": (RESETS, Bounds(resets=1, preemptions=1)),
    "a lost question or answer, and a switch": (PLAIN, Bounds(lost=1, preemptions=1, crashes=0)),
    "a new partition, the ledger lost and a switch": (NEW_PARTITION, Bounds(losses=1, preemptions=1, crashes=0)),
    "no fence and a crash": (FENCELESS, Bounds(preemptions=1)),
}
"""Up to a few minutes each."""
