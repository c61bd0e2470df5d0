"""`GET /tidegate/metrics`: what Prometheus scrapes, of the subscriptions that its user may see."""

import os
from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import Header, Response

from tidegate.config.settings import Settings
from tidegate.monitoring.exposition import exposed
from tidegate.monitoring.figures import figures_of
from tidegate.runtime.definitions import AllDefinitions
from tidegate_airflow.rest.access import may


def metrics(user: GetUserDep, accept: Annotated[str, Header()] = "") -> Response:
    """The metrics from the ledger alone: what Kafka said is as old as the last observation."""
    settings = Settings.from_environment(os.environ)
    names = [name for name in AllDefinitions(settings).names() if may(user, "GET", name)]
    text, content_type = exposed(figures_of(names, settings), accept)
    return Response(text, headers={"Content-Type": content_type})
