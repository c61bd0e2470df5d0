"""The strategy `manual`: a batch's offsets are committed when somebody says so.

OCI Streaming's `commitOnGet: false` with `ConsumerCommit`. `tidegate commit NAME`, or its DAG, commits a published
batch, fenced like any other commit; until then no further batch is planned.
"""

from tidegate.strategies.commit.after_processing import AfterProcessing
from tidegate.strategies.commit.strategy import CommitPoint


class Manual(AfterProcessing):
    """As AfterProcessing, and the commit is somebody's."""

    moment = CommitPoint.BY_HAND
