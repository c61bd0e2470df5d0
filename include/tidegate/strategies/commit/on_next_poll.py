"""The strategy `on-next-poll`: a batch's offsets are committed when the next one is planned.

OCI Streaming's `commitOnGet`: whoever asks for more has had what came before. A run that dies before the next one
asks leaves its batch to be committed by that one, or, if it wasn't published, delivered again.
"""

from tidegate.strategies.commit.after_processing import AfterProcessing
from tidegate.strategies.commit.strategy import CommitPoint


class OnNextPoll(AfterProcessing):
    """As AfterProcessing, and the commit is the next plan's."""

    moment = CommitPoint.ON_NEXT_PLAN
