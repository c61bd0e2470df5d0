"""Where Tidegate's page and Airflow's own pages of a subscription are, and the links from tasks to them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

PAGE = "/tidegate/page/subscriptions"


def page_url(subscription: str, batch: str | None = None) -> str:
    """The address of a subscription's page, or of one of its batches; without a host where Airflow knows none."""
    of_batch = f"/batches/{quote(batch, safe='')}" if batch else ""
    return f"{_base()}{PAGE}/{quote(subscription, safe='')}{of_batch}"


def dag_url(subscription: str) -> str:
    """The address of a subscription's DAG in Airflow."""
    return f"{_base()}/dags/{quote(subscription, safe='')}"


def _base() -> str:
    return str(conf.get("api", "base_url", fallback="") or "").rstrip("/")


class SubscriptionLink(BaseOperatorLink):  # type: ignore[misc]  # Airflow's types aren't followed
    """From a task to its subscription's page."""

    name = "Subscription"

    def get_link(self, operator: "BaseOperator", *, ti_key: Any) -> str:  # noqa: ARG002 (Airflow's signature)
        """The page's address, as Airflow keeps it when the task ends."""
        return page_url(Path(operator.definition).stem)


class BatchLink(BaseOperatorLink):  # type: ignore[misc]  # see above
    """From a task to its batch."""

    name = "Batch"

    def get_link(self, operator: "BaseOperator", *, ti_key: Any) -> str:  # noqa: ARG002 (see above)
        """The batch's address; nothing where the task had none."""
        return page_url(Path(operator.definition).stem, operator.taken) if operator.taken else ""
