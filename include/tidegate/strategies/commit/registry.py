"""The commit strategies by the words of the definition."""

from collections.abc import Mapping

from tidegate.model.subscription import CommitStrategy
from tidegate.strategies.commit.after_processing import AfterProcessing
from tidegate.strategies.commit.checkpoint import Checkpoint
from tidegate.strategies.commit.ignore import Ignore
from tidegate.strategies.commit.latest import Latest
from tidegate.strategies.commit.manual import Manual
from tidegate.strategies.commit.on_next_poll import OnNextPoll
from tidegate.strategies.commit.on_receipt import OnReceipt
from tidegate.strategies.commit.strategy import CommitStrategy as Strategy
from tidegate.strategies.commit.throttled import Throttled

COMMIT_STRATEGIES: Mapping[CommitStrategy, Strategy] = {
    "after-processing": AfterProcessing(),
    "on-receipt": OnReceipt(),
    "on-next-poll": OnNextPoll(),
    "manual": Manual(),
    "throttled": Throttled(),
    "latest": Latest(),
    "ignore": Ignore(),
    "checkpoint": Checkpoint(),
}
"""What a batch's positions mean doesn't depend on a strategy's own properties."""
