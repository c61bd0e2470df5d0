"""Already done: what a step says of a batch that has ended, to whoever had it run once more."""

import logging

from tidegate.model.batch import Batch
from tidegate.model.errors import message

log = logging.getLogger(__name__)


def say_done(batch: Batch) -> None:
    """Log that nothing is done again, and what makes a published batch once more."""
    fact = f"the batch is {batch.condition} already: nothing is done again"
    remedy = f"`tidegate reprocess {batch.subscription} --batch {batch.id}` makes it once more"
    log.info("%s", message(fact, batch, remedy if batch.is_published else ""))
