"""Whether a task may leave its waiting to Airflow's triggerer."""

import logging

import httpx
from airflow.sdk.configuration import conf

log = logging.getLogger(__name__)

_SECONDS = 5.0
_EXECUTION = "/execution"


def triggerer_runs() -> bool:
    """Whether Airflow is told to defer wherever that is possible, or says that it has a healthy triggerer."""
    return conf.getboolean("operators", "default_deferrable", fallback=False) or _is_healthy()


def _is_healthy() -> bool:
    """What the API server says, which anybody may ask; without an answer tasks wait by themselves."""
    url = f"{_api_server()}/api/v2/monitor/health"
    try:
        status = httpx.get(url, timeout=_SECONDS).json()["triggerer"]["status"]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        log.info("this task waits by itself: %s doesn't say whether a triggerer runs: %s", url, error)
        return False
    if status != "healthy":
        log.info("this task waits by itself: %s says that the triggerer is %s", url, status or "not there")
        return False
    return True


def _api_server() -> str:
    """The address by which tasks find the API server."""
    url: str = conf.get("core", "execution_api_server_url", fallback="") or conf.get("api", "base_url", fallback="")
    return url.rstrip("/").removesuffix(_EXECUTION)
