"""What the openlineage provider asks of an operator when its task has ended, well or not."""

import logging
from typing import TYPE_CHECKING, Any

from tidegate_airflow.lineage.seen import SeenBatch, SeenDataset, is_wanted, look

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

    from tidegate.config.settings import Settings
    from tidegate.model.subscription import Subscription

log = logging.getLogger(__name__)


class LineageOperator:
    """An operator whose task tells what it read and wrote of a batch, once it has looked at that.

    The provider asks in a process of its own that it forks, so what it needs is looked up before.
    """

    _seen: SeenBatch | None = None

    def get_openlineage_facets_on_complete(self, _task_instance: Any) -> "OperatorLineage | None":
        """Datasets and batch of a task that succeeded or was skipped."""
        return self._lineage()

    def get_openlineage_facets_on_failure(self, _task_instance: Any) -> "OperatorLineage | None":
        """Datasets and batch of a task that failed."""
        return self._lineage()

    def _reads(self, seen: SeenBatch) -> list[SeenDataset]:
        raise NotImplementedError(seen)

    def _writes(self, seen: SeenBatch) -> list[SeenDataset]:
        raise NotImplementedError(seen)

    def _look(self, subscription: "Subscription", settings: "Settings", batch_id: str) -> None:
        """Look at the batch for the provider, if there is one; the task is what it is, whatever becomes of that."""
        if not is_wanted():
            return
        try:
            self._seen = look(subscription, settings, batch_id)
        except Exception as error:  # noqa: BLE001 - the task's own error, if it has one, is the one to raise
            log.warning("OpenLineage isn't told of this task's datasets: %s (batch %s)", error, batch_id)

    def _lineage(self) -> "OperatorLineage | None":
        if self._seen is None:
            return None
        from tidegate_airflow.lineage.events import lineage  # noqa: PLC0415 (the provider need not be there)

        return lineage(self._seen, self._reads(self._seen), self._writes(self._seen))
