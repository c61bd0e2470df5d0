"""Airflow's REST API, as far as one who triggers a DAG and watches its run needs it."""

import ssl
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from tidegate_local.errors import LocalStackError

POLL_SECONDS = 0.5
ANSWER_SECONDS = 120
_TRIES = 5
_LOCKED = "Database error"
OVER = frozenset({"success", "failed"})
_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Loopback speaks plain HTTP, and reading the authorities' certificates takes 30 ms for each client."""


@dataclass(frozen=True)
class DagRun:
    """A DAG run as Airflow tells it: its state, and when it was queued, started and ended (UTC)."""

    run_id: str
    state: str
    queued: datetime | None
    started: datetime | None
    ended: datetime | None


@dataclass(frozen=True)
class TaskInstance:
    """One try of a task in a run; `map_index` is -1 unless the task is mapped."""

    task_id: str
    map_index: int
    state: str | None
    try_number: int
    started: datetime | None
    ended: datetime | None


class AirflowClient:
    """A logged-in client.

    Raises LocalStackError where the API refuses, naming what was asked and the answer, or doesn't answer in
    `answer_seconds`: a machine whose cores are all taken may need a minute for what else takes a moment.
    """

    def __init__(self, url: str, *, user: str, password: str, answer_seconds: float = ANSWER_SECONDS) -> None:
        # loopback: never through a proxy
        self._http = httpx.Client(base_url=url, timeout=answer_seconds, trust_env=False, verify=_NO_CERTIFICATES)
        answer = self._asked("POST", "/auth/token", json={"username": user, "password": password})
        self._http.headers["Authorization"] = f"Bearer {_checked(answer)['access_token']}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def wait_for_dag(self, dag_id: str, *, seconds: float = 60) -> None:
        """Return when Airflow has parsed the DAG; raises LocalStackError, with the import errors, if it doesn't."""
        if not _wait(lambda: self._get(f"/dags/{quote(dag_id)}", missing={}).get("dag_id"), seconds):
            errors = self._get("/importErrors").get("import_errors", [])
            traces = "\n".join(f"{each['filename']}:\n{each['stack_trace']}" for each in errors)
            raise LocalStackError(
                f"Airflow has no DAG {dag_id} after {seconds:g} s. {traces or 'There are no import errors.'}"
            )

    def number_of_dags(self) -> int:
        """Return how many DAGs Airflow knows."""
        return int(self._get("/dags?limit=1")["total_entries"])

    def unpause(self, dag_id: str) -> None:
        """Let the DAG's runs start."""
        _checked(self._write("PATCH", f"/dags/{quote(dag_id)}", {"is_paused": False}))

    def pause(self, dag_id: str) -> None:
        """Let none of the DAG's runs start, nor any more task of those under way."""
        _checked(self._write("PATCH", f"/dags/{quote(dag_id)}", {"is_paused": True}))

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Start a run as the UI's button would, with these params, and return its run id.

        It is due since a second ago: SQLite, which Airflow asks for the time, says whole seconds alone.
        """
        now = datetime.now(UTC)
        run_id = f"manual__{now.isoformat()}_{uuid.uuid4().hex[:8]}"
        due = (now - timedelta(seconds=1)).isoformat()
        body = {"dag_run_id": run_id, "logical_date": None, "run_after": due, "conf": dict(conf or {})}
        answer = self._write("POST", f"/dags/{quote(dag_id)}/dagRuns", body)
        if answer.status_code != httpx.codes.CONFLICT:  # else a try that seemed to fail has made it
            _checked(answer)
        return run_id

    def run(self, dag_id: str, run_id: str) -> DagRun:
        """Return where the run stands."""
        return _dag_run(self._get(_run_path(dag_id, run_id)))

    def runs(self, dag_id: str) -> tuple[DagRun, ...]:
        """Return where the newest hundred runs stand."""
        found = self._get(f"/dags/{quote(dag_id)}/dagRuns?limit=100&order_by=-run_after")
        return tuple(map(_dag_run, found["dag_runs"]))

    def wait_for_run(self, dag_id: str, run_id: str, *, seconds: float) -> DagRun:
        """Return the run when it's over, whatever its state; raises LocalStackError if that takes too long."""
        if not _wait(lambda: self.run(dag_id, run_id).state in OVER, seconds):
            raise LocalStackError(f"Run {run_id} of {dag_id} isn't over after {seconds:g} s: see its page in the UI.")
        return self.run(dag_id, run_id)

    def task_instances(self, dag_id: str, run_id: str) -> tuple[TaskInstance, ...]:
        """Return the run's tasks as they stand, those that started first before the others."""
        found = self._get(f"{_run_path(dag_id, run_id)}/taskInstances?limit=1000")["task_instances"]
        tasks = [
            TaskInstance(
                task_id=each["task_id"],
                map_index=each["map_index"],
                state=each["state"],
                try_number=each["try_number"],
                started=_instant(each["start_date"]),
                ended=_instant(each["end_date"]),
            )
            for each in found
        ]
        return tuple(sorted(tasks, key=lambda task: (task.started is None, task.started, task.task_id)))

    def log(self, dag_id: str, run_id: str, task: TaskInstance) -> str:
        """Return the log of the task's latest try as plain lines."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(task.task_id)}/logs/{max(task.try_number, 1)}"
        content = self._get(f"{path}?map_index={task.map_index}&full_content=true").get("content", [])
        return "\n".join(_line(each) for each in content)

    def _write(self, method: str, path: str, body: Mapping[str, Any]) -> httpx.Response:
        """The answer to a write that may be repeated; one that found SQLite locked is.

        Airflow's API server locks itself out there: a request that writes its log waits for one whose commit waits for
        the same thread.
        """
        for _ in range(_TRIES - 1):
            answer = self._asked(method, f"/api/v2{path}", json=body)
            if answer.status_code != httpx.codes.INTERNAL_SERVER_ERROR or _LOCKED not in answer.text:
                return answer
        return self._asked(method, f"/api/v2{path}", json=body)

    def _get(self, path: str, missing: Mapping[str, Any] | None = None) -> Any:
        answer = self._asked("GET", f"/api/v2{path}")
        if answer.status_code == httpx.codes.NOT_FOUND and missing is not None:
            return missing
        return _checked(answer)

    def _asked(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            return self._http.request(method, path, **more)
        except httpx.TransportError as error:
            raise LocalStackError(f"Airflow's API server didn't answer {method} {path}: {error}.") from error


def health(url: str) -> Mapping[str, str]:
    """Return the status by component as Airflow's health endpoint gives it; empty while nobody answers."""
    try:
        address = f"{url}/api/v2/monitor/health"
        answer = httpx.get(address, timeout=10, trust_env=False, verify=_NO_CERTIFICATES)
        components: Mapping[str, Mapping[str, str]] = answer.json()
    except (httpx.HTTPError, ValueError):
        return {}
    return {name: each["status"] for name, each in components.items() if each and each.get("status")}


def _dag_run(found: Mapping[str, Any]) -> DagRun:
    return DagRun(
        run_id=found["dag_run_id"],
        state=found["state"],
        queued=_instant(found["queued_at"]),
        started=_instant(found["start_date"]),
        ended=_instant(found["end_date"]),
    )


def _run_path(dag_id: str, run_id: str) -> str:
    return f"/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}"


def _checked(answer: httpx.Response) -> Any:
    if answer.is_error:
        asked = f"{answer.request.method} {answer.request.url.path}"
        raise LocalStackError(f"Airflow answered {asked} with {answer.status_code}: {answer.text[:500]}")
    return answer.json()


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _line(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    details = "".join(f"\n{each.get('exc_type')}: {each.get('exc_value')}" for each in entry.get("error_detail") or ())
    return f"{entry.get('timestamp') or ''} {entry.get('level') or ''} {entry.get('event', '')}".strip() + details


def _wait(holds: Callable[[], object], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
