"""Airflow's connections without Airflow: from the environment, and only for what isn't there by asking its CLI."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Lock
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from tidegate.model.errors import UnavailableError, WrongDefinitionError
from tidegate.ports import Connection

_PREFIX = "AIRFLOW_CONN_"
_FIELDS = frozenset(
    {"conn_type", "description", "host", "schema", "login", "password", "port", "extra"}
)  # of Airflow's JSON form
ASK_SECONDS: Final = 60.0
"""How long an `airflow` command may take, which needs 4 to 10 s to start."""
_FRESH_SECONDS: Final = 20.0
_NOT_FOUND = "Connection not found"  # what Airflow's CLI says
_ASK = ("connections", "get", "-o", "json", "--")


class _UnreadableError(Exception):
    """What is wrong with a connection's text, in words that don't quote it."""


class AirflowConnections:
    """The port `Connections` for a process that runs outside of Airflow.

    `AIRFLOW_CONN_<ID>`, as JSON or URI, is read as an Airflow task reads it. `airflow` is the command that is
    asked for others: by default the one beside this Python, else the one on the environment's PATH. It takes seconds,
    so whoever wants the same one meanwhile, or within some seconds, gets the same answer. Later it is asked again:
    keys may be replaced while a process lives.
    """

    def __init__(self, environ: Mapping[str, str], airflow: Sequence[str] | None = None) -> None:
        self._environ = environ
        self._airflow = airflow
        self._answers: dict[str, tuple[float, Future[Connection]]] = {}
        self._answering = Lock()

    def get(self, connection_id: str) -> Connection:
        """See `tidegate.ports.Connections`. Raises UnavailableError if Airflow doesn't answer."""
        value = self._environ.get(f"{_PREFIX}{connection_id.upper()}", "").strip()
        if not value:
            return self._answer(connection_id)
        return connection_of(connection_id, value, f"{_PREFIX}{connection_id.upper()}")

    def _answer(self, connection_id: str) -> Connection:
        with self._answering:
            asked_at, known = self._answers.get(connection_id, (0.0, None))
            if known is not None and known.done() and time.monotonic() - asked_at > _FRESH_SECONDS:
                known = None
            answer = known or Future()
            if known is None:
                self._answers[connection_id] = time.monotonic(), answer
        if known is None:
            try:
                answer.set_result(self._ask(connection_id))
            except BaseException as error:  # noqa: BLE001 - the others, who wait, raise it as well
                answer.set_exception(error)
        return answer.result()

    def _ask(self, connection_id: str) -> Connection:
        command = self._airflow or airflow_command(self._environ)
        if not command:
            raise _missing(connection_id)
        try:
            answer = subprocess.run(
                [*command, *_ASK, connection_id],
                env=dict(self._environ),
                capture_output=True,
                text=True,
                timeout=ASK_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise UnavailableError(
                f"`airflow connections get {connection_id}` didn't answer within {ASK_SECONDS:.0f} s; look at "
                f"Airflow's database, or set {_PREFIX}{connection_id.upper()}"
            ) from None
        if answer.returncode != 0:
            if _NOT_FOUND in answer.stdout + answer.stderr:
                raise _missing(connection_id)
            raise UnavailableError(
                f"`airflow connections get {connection_id}` failed (exit status {answer.returncode}): run it to see "
                f"why, or set {_PREFIX}{connection_id.upper()} (JSON or URI)"
            )
        return _from_answer(connection_id, answer.stdout)


def connection_of(connection_id: str, value: str, variable: str) -> Connection:
    """The connection in the text of a variable, JSON or URI. Raises WrongDefinitionError, naming the variable."""
    try:
        return _from_json(connection_id, value) if value.startswith("{") else _from_uri(connection_id, value)
    except (_UnreadableError, ValueError) as error:
        why = error if isinstance(error, _UnreadableError) else "it can't be parsed"  # others quote the secret
        raise WrongDefinitionError(f"{variable} is no connection in Airflow's JSON or URI form: {why}") from None


def airflow_command(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """The command `airflow`: the one beside this Python, else the one on the environment's PATH, if there is one."""
    beside = Path(sys.executable).with_name("airflow")
    found = str(beside) if beside.exists() else shutil.which("airflow", path=environ.get("PATH"))
    return (found,) if found else None


def _missing(connection_id: str) -> WrongDefinitionError:
    return WrongDefinitionError(
        f"there is no Airflow connection {connection_id}: set {_PREFIX}{connection_id.upper()} (JSON or URI), or "
        f"create it with `airflow connections add {connection_id} --conn-json JSON`"
    )


def _from_answer(connection_id: str, output: str) -> Connection:
    """The connection in what the CLI printed: warnings may come before, the list of connections is the last line."""
    lines = output.strip().splitlines()
    try:
        found = json.loads(lines[-1])[0]
        return Connection(
            id=connection_id,
            type=found["conn_type"] or "",
            host=found["host"],
            port=found["port"] and int(found["port"]),
            login=found["login"],
            password=found["password"],
            extra=_extra(found["extra_dejson"]),
            schema=found["schema"],
        )
    except (_UnreadableError, ValueError, KeyError, IndexError, TypeError):
        raise UnavailableError(
            f"`airflow connections get {connection_id}` answered what can't be read; run it to see what is wrong"
        ) from None  # the answer is a secret


def _from_json(connection_id: str, value: str) -> Connection:
    found = json.loads(value)
    unknown = sorted(found.keys() - _FIELDS)
    if unknown:
        raise _UnreadableError(f"its JSON has the unknown field {', '.join(unknown)}")
    port = found.get("port")
    if port and not str(port).isdecimal():
        raise _UnreadableError("its port isn't a number")
    return Connection(
        id=connection_id,
        type=_type(found.get("conn_type") or ""),
        host=found.get("host"),
        port=int(port) if port else None,
        login=found.get("login"),
        password=found.get("password"),
        extra=_extra(found.get("extra")),
        schema=found.get("schema"),
    )


def _from_uri(connection_id: str, uri: str) -> Connection:
    """As Airflow reads it: `type://login:password@host:port/schema?extra`, or with `protocol://` before the host."""
    kind = urlsplit(uri).scheme
    rest = uri.replace(f"{kind}://", "", 1)
    protocol, more, _ = rest.partition("://")
    if not kind or "://" not in uri:
        raise _UnreadableError("a URI begins with type://, the type in letters, digits and dashes")
    if more and (rest.count("://") > 1 or "@" in protocol or ":" in protocol):
        raise _UnreadableError("a URI has one :// after the type, and at most one more, after the host's protocol")
    parts = urlsplit(rest if more else f"//{rest}")
    host = _host(parts)
    return Connection(
        id=connection_id,
        type=_type(kind),
        host=f"{protocol}://{host}" if more and host else host,
        port=parts.port,
        login=unquote(parts.username) if parts.username else parts.username,
        password=unquote(parts.password) if parts.password else parts.password,
        extra=_query(parts.query),
        schema=unquote(parts.path[1:]) or None,
    )


def _type(kind: str) -> str:
    return "postgres" if kind == "postgresql" else kind.replace("-", "_")


def _host(parts: SplitResult) -> str:
    host = unquote(parts.hostname or "")
    if "/" not in host:
        return host
    return unquote(parts.netloc.rpartition("@")[2].partition(":")[0])  # a path as host keeps its capitals


def _query(query: str) -> Mapping[str, object]:
    found = dict(parse_qsl(query, keep_blank_values=True))
    return _extra(found["__extra__"]) if "__extra__" in found else found


def _extra(extra: object) -> Mapping[str, object]:
    found = json.loads(extra) if isinstance(extra, str) and extra else extra
    if not found:
        return {}
    if not isinstance(found, dict):
        raise _UnreadableError("its extra isn't a JSON object")
    return found
