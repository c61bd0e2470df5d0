"""Where each commit strategy keeps a group's positions."""

from enum import StrEnum

from tidegate.model.batch import Batch
from tidegate.model.errors import WrongDefinitionError, message
from tidegate.model.subscription import CommitStrategy, Subscription


class Store(StrEnum):
    """What holds the positions, as messages name it."""

    KAFKA = "Kafka"
    LEDGER = "the ledger's database"
    NOTHING = "nothing"


def store_of(strategy: CommitStrategy) -> Store:
    """Where this strategy keeps positions."""
    match strategy:
        case "checkpoint":
            return Store.LEDGER
        case "ignore":
            return Store.NOTHING
        case _:
            return Store.KAFKA


def refuse_other_store(batch: Batch, subscription: Subscription) -> None:
    """Raises WrongDefinitionError for an open batch whose positions the definition would now keep elsewhere.

    It was planned from the one store and can't be committed to the other.
    """
    planned, now = store_of(batch.commit_strategy), store_of(subscription.commit_strategy)
    if batch.state.is_open and planned is not now:
        raise WrongDefinitionError(
            message(
                f"the open batch was planned with commit-strategy: {batch.commit_strategy}, whose positions {planned} "
                f"keeps, and the definition says {subscription.commit_strategy} now ({now})",
                batch,
                f"set {batch.commit_strategy} again until that batch is done: run it to its commit, or, where it "
                f"stopped, give it up in Airflow or by `tidegate clear {batch.subscription} --answer skip` and run "
                "once more; then change the strategy",
            )
        )
