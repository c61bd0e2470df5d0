"""Who may do what: Airflow knows its users and their rights for a DAG, Tidegate its operators."""

from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from fastapi import Request

from tidegate.config.settings import Settings
from tidegate_airflow.operators import CLEAR
from tidegate_airflow.permission import named_by_both
from tidegate_airflow.rest import airflow_dags
from tidegate_airflow.rest.refused import RefusedError

_SAFE = ("GET", "HEAD", "OPTIONS")


def may(user: BaseUser, method: ResourceMethod, name: str) -> bool:
    """Whether Airflow lets a user do this with the DAG of a subscription, which needn't be there yet."""
    return bool(get_auth_manager().is_authorized_dag(method=method, details=DagDetails(id=name), user=user))


def require_reader(user: BaseUser, name: str) -> None:
    """Raise RefusedError for a user who may not see the DAG."""
    if not may(user, "GET", name):
        raise RefusedError(403, f"{user.get_name()} may not see {name}")


def require_editor(user: BaseUser, name: str, settings: Settings) -> None:
    """Raise RefusedError for a user who may not change the DAG, or who isn't one of Tidegate's operators.

    Those are named by the API server's environment, or by the DAG processor's, which tags a DAG with them.
    """
    if not may(user, "PUT", name):
        raise RefusedError(403, f"{user.get_name()} may not change {name}")
    operators = named_by_both(settings.operators, airflow_dags.tags(CLEAR))
    if operators is not None and user.get_name() not in operators:
        raise RefusedError(403, f"{user.get_name()} may not change {name}: only whom TIDEGATE_OPERATORS names may")


def refuse_other_sites(request: Request) -> None:
    """Raise RefusedError where a page of another site makes a browser change something in its user's name.

    A browser says where a request comes from, and sends the session's cookie by itself; who sends a token is no page of
    another site.
    """
    if request.method in _SAFE or "authorization" in request.headers:
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    is_ours = site == "same-origin" if site else origin is None or urlsplit(origin).netloc == request.headers["host"]
    if not is_ours:
        raise RefusedError(403, "a page of another site can't change subscriptions")
