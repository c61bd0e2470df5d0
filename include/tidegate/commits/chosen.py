"""The commit strategies by the words of the definition."""

from collections.abc import Mapping

from tidegate.commits.after_processing import AfterProcessing
from tidegate.commits.checkpoint import Checkpoint
from tidegate.commits.ignore import Ignore
from tidegate.commits.latest import Latest
from tidegate.commits.manual import Manual
from tidegate.commits.on_next_poll import OnNextPoll
from tidegate.commits.on_receipt import OnReceipt
from tidegate.commits.strategy import CommitStrategy as Strategy
from tidegate.commits.throttled import Throttled
from tidegate.subscription import CommitStrategy

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
