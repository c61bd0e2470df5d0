"""The settings of an installation, read from the environment once: where definitions, ledger and landing are.

`TIDEGATE_HOME` is the folder that relative paths start from, `TIDEGATE_SUBSCRIPTIONS` the folder of the
definitions, `TIDEGATE_LEDGER` a SQLAlchemy URL, `TIDEGATE_LANDING` a path or URI, `TIDEGATE_LOGS` the folder of the
Spark jobs' logs. `TIDEGATE_OPERATORS` are the names of the Airflow users who may clear, commit and answer,
`TIDEGATE_OPERATOR_ROLES` the roles that may trigger what does it; both are separated by commas, as are the names and
patterns of `TIDEGATE_JOB_ENVIRONMENT`: variables that a Spark job sees beside those that every job sees.
`TIDEGATE_HTTP_ALLOWED` are hosts and networks that `processing.kind: http` may send to though they aren't public.
`TIDEGATE_UMASK` takes permissions from the files and folders that are made.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from os.path import normpath
from pathlib import Path

from tidegate.model.errors import WrongDefinitionError

PROJECT = Path(__file__).resolve().parents[3]

JOB_ENVIRONMENT = "TIDEGATE_JOB_ENVIRONMENT"
HTTP_ALLOWED = "TIDEGATE_HTTP_ALLOWED"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_SECRET_IN_QUERY = re.compile(
    r"(?i)([?&][^=&]*(?:pass|pwd|secret|token|key|credential|auth|sig|dsn|options|service)[^=&]*=)[^&]*"
)
_SECRET_IN_ADDRESS = re.compile(r"(://[^/?#@:]*:).*@")  # a password may hold any character: rather hide too much
_PASSWORD_OF_A_PLACE = re.compile(r"://[^/@:]*:(?![0-9]+(?:/|$)).*@")  # not `hdfs://name:8020/a@b`


@dataclass(frozen=True)
class Settings:
    """Absolute folders, the ledger's SQLAlchemy URL and the landing's URI; who may decide about batches in Airflow.

    Without `operators` that is whoever Airflow lets. `operator_roles` are for auth managers that know roles for a DAG.
    `job_environment` are variables that a Spark job sees, too. `http_allowed` is read by `AllowedAddresses`.
    `umask` is that of the processes that run steps or make the ledger.
    """

    home: Path
    subscriptions: Path
    ledger: str = field(repr=False)  # its password
    landing: str = field(repr=False)
    logs: Path = PROJECT / "data" / "logs"
    operators: tuple[str, ...] = ()
    operator_roles: tuple[str, ...] = ()
    job_environment: tuple[str, ...] = ()
    http_allowed: str = ""
    umask: int = 0o077

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Settings":
        """Read the settings; an empty variable counts as unset. Raises WrongDefinitionError naming it."""
        home = _expanded(environ.get("TIDEGATE_HOME") or str(PROJECT)).absolute()
        if not home.is_dir():
            raise WrongDefinitionError(f"TIDEGATE_HOME is {home}, which isn't a folder: create or unset it")
        folder = environ.get("TIDEGATE_SUBSCRIPTIONS") or "include/subscriptions"
        return cls(
            home=home,
            subscriptions=Path(normpath(home / _expanded(folder))),
            ledger=_ledger_url(home, environ.get("TIDEGATE_LEDGER") or "sqlite:///data/ledger.db"),
            landing=_landing_uri(home, environ.get("TIDEGATE_LANDING") or "data/landing"),
            logs=Path(normpath(home / _expanded(environ.get("TIDEGATE_LOGS") or "data/logs"))),
            operators=listed(environ.get("TIDEGATE_OPERATORS")),
            operator_roles=listed(environ.get("TIDEGATE_OPERATOR_ROLES")),
            job_environment=listed(environ.get(JOB_ENVIRONMENT)),
            http_allowed=environ.get(HTTP_ALLOWED) or "",
            umask=umask(environ),
        )

    def redacted(self) -> dict[str, str]:
        """The settings under their variables' names, for display: no password."""
        return {
            "TIDEGATE_HOME": str(self.home),
            "TIDEGATE_SUBSCRIPTIONS": str(self.subscriptions),
            "TIDEGATE_LEDGER": redact(self.ledger),
            "TIDEGATE_LANDING": redact(self.landing),
            "TIDEGATE_LOGS": str(self.logs),
            "TIDEGATE_OPERATORS": ", ".join(self.operators),
            "TIDEGATE_OPERATOR_ROLES": ", ".join(self.operator_roles),
            JOB_ENVIRONMENT: ", ".join(self.job_environment),
            HTTP_ALLOWED: self.http_allowed,
            "TIDEGATE_UMASK": f"{self.umask:03o}",
        }


def scheme(path_or_uri: str) -> str | None:
    """The scheme of a URI, in small letters; None for a path."""
    found = _SCHEME.match(path_or_uri)
    return found[1].lower() if found else None


def absolute_uri(home: Path, path_or_uri: str) -> str:
    """The one spelling of a place: a URI, without a slash at its end.

    A path, relative to `home` or absolute, becomes `file://` and the absolute path, without percent-encoding:
    Spark takes the characters of a path as they are. `file:/x` becomes `file:///x`. Other URIs stay. Raises
    WrongDefinitionError for a file URI that names a host.
    """
    kind = scheme(path_or_uri)
    if kind is None:
        return f"file://{_normal(str(home / _expanded(path_or_uri)))}"
    rest = path_or_uri[len(kind) + 1 :]
    if kind != "file":
        return f"{kind}:{rest}".rstrip("/")
    path = rest.removeprefix("//")
    if not path.startswith("/"):
        raise WrongDefinitionError(
            f"{path_or_uri} names a host where a folder was meant: write file:///{path} or a path"
        )
    return f"file://{_normal(path)}"


def redact(url: str) -> str:
    """A URL for display: what may be a secret in its address and in its query becomes ***."""
    return _SECRET_IN_QUERY.sub(r"\1***", _SECRET_IN_ADDRESS.sub(r"\1***@", url))


def has_password(uri: str) -> bool:
    """Whether the address of a URI holds a password or the like: `s3://key:secret@bucket`."""
    return _PASSWORD_OF_A_PLACE.search(uri) is not None


def listed(text: str | None) -> tuple[str, ...]:
    """The names between commas, each once, in their order."""
    return tuple(dict.fromkeys(name for each in (text or "").split(",") if (name := each.strip())))


def umask(environ: Mapping[str, str]) -> int:
    """The permissions that nobody gets on files and folders that are made: the group's and others', by default.

    The owner's can't be taken: nobody could read what was just written.
    """
    octal = environ.get("TIDEGATE_UMASK") or "077"
    if not re.fullmatch("0?0[0-7]{2}", octal):
        raise WrongDefinitionError(
            f"TIDEGATE_UMASK is {octal}: write three octal digits that leave the owner's rights, as 077 (nobody else "
            "may read), 027 (the group may) or 007 (the group may write, too)"
        )
    return int(octal, 8)


def _expanded(path: str) -> Path:
    """The path with a leading `~/` replaced by the user's home folder."""
    return Path.home() / path[2:] if path == "~" or path.startswith("~/") else Path(path)


def _normal(path: str) -> str:
    return "/" + normpath(path).lstrip("/")


def _landing_uri(home: Path, path_or_uri: str) -> str:
    if has_password(path_or_uri):
        raise WrongDefinitionError(
            f"TIDEGATE_LANDING is {redact(path_or_uri)}: a landing's URI stands in manifests, logs and the ledger, and "
            "can't hold credentials; give them as the file system's own environment has them (AWS_ACCESS_KEY_ID, ...)"
        )
    try:
        return absolute_uri(home, path_or_uri)
    except WrongDefinitionError as error:
        raise WrongDefinitionError(f"TIDEGATE_LANDING: {error}") from None


def _ledger_url(home: Path, url: str) -> str:
    if "://" not in url:
        raise WrongDefinitionError(
            "TIDEGATE_LEDGER isn't a SQLAlchemy URL: write sqlite:///data/ledger.db or "
            "postgresql+psycopg2://user:password@host/database"
        )
    dialect, _, rest = url.partition("://")
    if dialect.partition("+")[0] != "sqlite":
        return url
    path, mark, query = rest.removeprefix("/").partition("?")
    if path in ("", ":memory:"):
        raise WrongDefinitionError(
            f"TIDEGATE_LEDGER is {redact(url)}, a database in memory, empty for each task anew: name a file"
        )
    return f"{dialect}:///{home / path}{mark}{query}"
