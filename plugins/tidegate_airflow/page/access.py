"""What a user of the page may see: as Airflow lets them see the DAGs of the subscriptions."""

import os

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser

from tidegate.checks.pools import waits_for_pool
from tidegate.config.settings import Settings
from tidegate.ledger.batch_record import history_page
from tidegate.ledger.holders import is_made
from tidegate.ledger.overview import Overview, overview
from tidegate.monitoring.overview import Standing, standings, with_findings
from tidegate.runtime.clock import SystemClock
from tidegate.runtime.definitions import AllDefinitions
from tidegate_airflow.pools import waiting_without_pool
from tidegate_airflow.rest.access import require_editor, require_reader
from tidegate_airflow.rest.refused import RefusedError


def settings_here() -> Settings:
    """The settings of the API server."""
    return Settings.from_environment(os.environ)


def all_standings(settings: Settings, user: BaseUser) -> tuple[Overview, tuple[Standing, ...]]:
    """How all subscriptions stand that this user may see, the worst first."""
    known = _overview(settings)
    found = _with_pools(standings(AllDefinitions(settings).file_names(), known))
    allowed = get_auth_manager().filter_authorized_dag_ids(dag_ids={each.name for each in found}, user=user)
    return known, tuple(each for each in found if each.name in allowed)


def standing_of(name: str, settings: Settings, user: BaseUser) -> Standing:
    """How one stands. Raises RefusedError for one that this user may not see, and for one that isn't there."""
    require_reader(user, name)
    known = _overview(settings, name)
    found = standings({name} & AllDefinitions(settings).file_names(), known)
    if not found and (name in known.entries or history_page(settings.ledger, name, 0, 1)):
        found = standings([name], known)  # of which there is only the past
    if found:
        return _with_pools(found)[0]
    raise RefusedError(404, f"{name} is no subscription of Tidegate, so there is nothing to show of it here")


def may_act(name: str, settings: Settings, user: BaseUser) -> bool:
    """Whether actions on it are offered to this user; each action asks again."""
    try:
        require_editor(user, name, settings)
    except RefusedError:
        return False
    return True


def _with_pools(found: tuple[Standing, ...]) -> tuple[Standing, ...]:
    """With what keeps runs waiting that no task of ours can see: that their pool isn't there."""
    waiting = waiting_without_pool()
    return with_findings(found, {name: waits_for_pool(*task) for name, task in waiting.items()})


def _overview(settings: Settings, name: str | None = None) -> Overview:
    """Nothing of a ledger that nobody has made yet, which isn't made for it."""
    if not is_made(settings.ledger):
        return Overview(SystemClock().now(), {})
    return overview(settings.ledger, name)
