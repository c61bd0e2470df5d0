"""The settings of an installation: where definitions, ledger and landing are, and who may decide.

Each comes from the variable `TIDEGATE_X`, else from the option `x` of `[tidegate]` in Airflow's configuration, else it
is the default; an empty one counts as unset. `home` is the folder that relative paths start from, `subscriptions` the
folder of the definitions, `ledger` a SQLAlchemy URL, `landing` a path or URI, `logs` the folder of Spark jobs' logs.
`operators` are the names of the Airflow users who may clear, commit and answer, `operator_roles` the roles that may
trigger what does it; both are separated by commas, as are the names and patterns of `job_environment`: variables that
a Spark job sees beside those that every job sees. `http_allowed` are hosts and networks that `processing.kind: http`
may send to though they aren't public. `umask` takes permissions from the files and folders that are made.
`monitor_schedule` says when the DAG `tidegate_monitor` looks at all subscriptions, `maintenance_schedule` when
`tidegate_maintenance` maintains their tables; without it there is no such DAG.

Nothing depends on where the code lies, and in Airflow nothing on the working folder, which differs between the
processes of one Airflow.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from os.path import normpath
from pathlib import Path
from typing import Final

from tidegate.config.airflow_cfg import Given, airflow_home, airflow_options
from tidegate.config.cron import PRESETS, cron_complaint
from tidegate.model.errors import WrongDefinitionError

DEFAULTS: Final[Mapping[str, str]] = {
    "home": "",
    "subscriptions": "include/subscriptions",
    "ledger": "sqlite:///data/ledger.db",
    "landing": "data/landing",
    "logs": "data/logs",
    "operators": "",
    "operator_roles": "",
    "job_environment": "",
    "http_allowed": "",
    "umask": "077",
    "monitor_schedule": "*/5 * * * *",
    "maintenance_schedule": "",
}
"""The options, and what they are where nobody sets them."""
_DEFAULT: Final = "default"
_WORKING_FOLDER: Final = "working folder"
SPARK_JOBS: Final = "spark_jobs"
TESTS: Final = "tests"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_SECRET_IN_QUERY = re.compile(
    r"(?i)([?&](?:[^=&]*(?:pass|pwd|secret|token|key|credential|auth|sig|dsn|options|service)[^=&]*|code|jwt|sid)=)[^&]*"
)
_SECRET_IN_ADDRESS = re.compile(r"(://[^/?#@:]*:).*@")  # a password may hold any character: rather hide too much
_PASSWORD_OF_A_PLACE = re.compile(r"://[^/@:]*:(?![0-9]+(?:/|$)).*@")  # not `hdfs://name:8020/a@b`
_WITH_FOLDERS: Final = ("file", "hdfs", "viewfs")
_NO_ROLE = re.compile(r"""[;"]|^'|'$""")
_NO_USER = re.compile(rf"{_NO_ROLE.pattern}|\s")
_LANDING = re.compile(r"(file|hdfs|viewfs|gs|gcs|abfss?)://.*[^/].*|s3[an]?://([^:/]+@)?[^:@/]+(/.*)?", re.DOTALL)


@dataclass(frozen=True)
class Settings:
    """Absolute folders, the ledger's SQLAlchemy URL and the landing's URI; who may decide about batches in Airflow.

    Without `operators` that is whoever Airflow lets. `operator_roles` are for auth managers that know roles for a DAG.
    `job_environment` are variables that a Spark job sees, too. `http_allowed` is read by `AllowedAddresses`.
    `umask` is that of the processes that run steps or make the ledger. `origins` say where each setting comes from.
    """

    home: Path
    subscriptions: Path
    ledger: str = field(repr=False)  # its password
    landing: str = field(repr=False)
    logs: Path
    operators: tuple[str, ...] = ()
    operator_roles: tuple[str, ...] = ()
    job_environment: tuple[str, ...] = ()
    http_allowed: str = ""
    umask: int = 0o077
    monitor_schedule: str = DEFAULTS["monitor_schedule"]
    maintenance_schedule: str = DEFAULTS["maintenance_schedule"]
    origins: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def spark_jobs(self) -> Path:
        """The folder of the installation's own Spark jobs and transforms, which may be missing."""
        return self.home / SPARK_JOBS

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], working_folder: Path | None = None) -> "Settings":
        """Read the settings. Raises WrongDefinitionError naming the one that is wrong, and where it is set.

        Only the command line names its working folder, which is home if `include/subscriptions` lies in it and neither
        a variable nor Airflow's configuration says otherwise. Home without all of these may be missing.
        """
        configured = airflow_options(environ, tuple(DEFAULTS))
        given = configured | _variables(environ)
        if "home" in given:
            home, origin = _given_home(given["home"], working_folder), given["home"].origin
        else:
            home, origin = _default_home(environ, None if configured else working_folder)
        read = {name: given.get(name) or Given(default, variable(name)) for name, default in DEFAULTS.items()}
        return cls(
            home=home,
            subscriptions=Path(normpath(home / _expanded(read["subscriptions"].value))),
            ledger=_ledger_url(home, read["ledger"]),
            landing=_landing_uri(home, read["landing"]),
            logs=_logs(home, read["logs"]),
            operators=_named(read["operators"], _NO_USER),
            operator_roles=_named(read["operator_roles"], _NO_ROLE),
            job_environment=listed(read["job_environment"].value),
            http_allowed=read["http_allowed"].value,
            umask=_umask(read["umask"]),
            monitor_schedule=_schedule(read["monitor_schedule"]),
            maintenance_schedule=_schedule(read["maintenance_schedule"]),
            origins={name: given[name].origin if name in given else _DEFAULT for name in DEFAULTS} | {"home": origin},
        )

    def redacted(self) -> dict[str, str]:
        """The settings under their variables' names, for display: no password."""
        shown = {
            "home": str(self.home),
            "subscriptions": str(self.subscriptions),
            "ledger": redact(self.ledger),
            "landing": redact(self.landing),
            "logs": str(self.logs),
            "operators": ", ".join(self.operators),
            "operator_roles": ", ".join(self.operator_roles),
            "job_environment": ", ".join(self.job_environment),
            "http_allowed": self.http_allowed,
            "umask": f"{self.umask:03o}",
            "monitor_schedule": self.monitor_schedule,
            "maintenance_schedule": self.maintenance_schedule,
        }
        return {variable(name): value for name, value in shown.items()}

    def to_json(self) -> dict[str, dict[str, str]]:
        """The settings under their variables' names, each with its value, but no password, and where it comes from."""
        origins = {variable(name): origin for name, origin in self.origins.items()}
        values = self.redacted().items()
        return {name: {"value": value, "origin": origins.get(name, _DEFAULT)} for name, value in values}

    def make_home(self) -> None:
        """Make the default home where it isn't yet, open to those whom the umask leaves. A home that is set is there.

        For processes with a umask of their own; in those that run steps it is made with what is written below it.
        """
        if not self.home.exists():
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.home.chmod(0o777 & ~self.umask)

    @property
    def is_placed(self) -> bool:
        """Whether somebody says where definitions are, or the working folder has them."""
        return any(self.origins.get(name) != _DEFAULT for name in ("home", "subscriptions"))

    @property
    def own_places(self) -> dict[str, str]:
        """The URIs of what no output is to mix with, by what each is; none of a folder that home lies in.

        Of a ledger that is a file, its file: it is beside the outputs by default.
        """
        folders = {
            "the definitions": self.subscriptions,
            "Spark's jobs and transforms": self.spark_jobs,
            "the jobs' logs": self.logs,
        }
        backend, _, file = self.ledger.partition(":///")
        if backend.startswith("sqlite"):
            folders["the ledger"] = Path(file.partition("?")[0])
        apart = {what: f"file://{path}" for what, path in folders.items() if not self.home.is_relative_to(path)}
        return {"the landing": self.landing, **apart}

    @property
    def no_subscriptions(self) -> str:
        """What to tell whoever looks for definitions where their folder isn't."""
        missing = f"there is no folder {self.subscriptions}"
        if self.is_placed:
            return f"{missing}: create it, or set TIDEGATE_SUBSCRIPTIONS to that of the definitions"
        return (
            f"{missing}, which is the default: create it, or set TIDEGATE_HOME to the folder that "
            "include/subscriptions lies in; the command line also finds it in the working folder, unless Airflow's "
            "configuration sets anything in [tidegate]"
        )


def variable(option: str) -> str:
    """The variable of a setting."""
    return f"TIDEGATE_{option.upper()}"


def _variables(environ: Mapping[str, str]) -> dict[str, Given]:
    names = {name: variable(name) for name in DEFAULTS}
    return {name: Given(environ[each], each) for name, each in names.items() if environ.get(each)}


def _given_home(given: Given, working_folder: Path | None) -> Path:
    """The home that was configured; a relative one only of the command line's own variable."""
    home = _expanded(given.value)
    if not home.is_absolute():
        if working_folder is None or given.origin != variable("home"):
            raise WrongDefinitionError(
                f"{given.origin} is {home}, which each of Airflow's processes looks for in its own working folder: "
                "write the whole path"
            )
        home = working_folder / home
    if not home.is_dir():
        raise WrongDefinitionError(f"{given.origin} is {home}, which isn't a folder: create or unset it")
    return home


def _default_home(environ: Mapping[str, str], working_folder: Path | None) -> tuple[Path, str]:
    """The home of whoever configured none, and where it comes from."""
    default = airflow_home(environ) / "tidegate"
    definitions = DEFAULTS["subscriptions"]
    if working_folder is None or not (working_folder / definitions).is_dir():
        return default, _DEFAULT
    if (default / definitions).is_dir() and not default.samefile(working_folder):
        raise WrongDefinitionError(
            f"{definitions} is in {working_folder}, the working folder, and in {default}, where Airflow's processes "
            "look: set TIDEGATE_HOME to the one that you mean"
        )
    return working_folder, _WORKING_FOLDER


def scheme(path_or_uri: str) -> str | None:
    """The scheme of a URI, in small letters; None for a path."""
    found = _SCHEME.match(path_or_uri)
    return found[1].lower() if found else None


def is_relative(path_or_uri: str) -> bool:
    """Whether it is a path that `absolute_uri` takes to be below home."""
    return scheme(path_or_uri) is None and not _expanded(path_or_uri).is_absolute()


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


def unkept_name(uri: str) -> str | None:
    """What an object store's URI must not have, as its clients lose or refuse it, and what to do; None if it is fine.

    A slash at its end is fine.
    """
    _, *names = uri.partition("://")[2].rstrip("/").split("/")
    if "" in names:
        return "// after the bucket: write one slash"
    found = next((each for each in names if each in (".", "..")), None)
    return found and f"{found} between slashes: write the place without it"


def redact(url: str) -> str:
    """A URL for display: what may be a secret in its address and in its query becomes ***."""
    return _SECRET_IN_QUERY.sub(r"\1***", _SECRET_IN_ADDRESS.sub(r"\1***@", url))


def has_password(uri: str) -> bool:
    """Whether the address of a URI holds a password or the like: `s3://key:secret@bucket`."""
    return _PASSWORD_OF_A_PLACE.search(uri) is not None


def listed(text: str | None) -> tuple[str, ...]:
    """The names between commas, each once, in their order."""
    return tuple(dict.fromkeys(name for each in (text or "").split(",") if (name := each.strip())))


def _named(given: Given, wrong: re.Pattern[str]) -> tuple[str, ...]:
    """The users or roles between commas; none where nothing is set, which leaves it to Airflow.

    What is set and names nobody would open what it was to close.
    """
    names = listed(given.value)
    if given.value and not names:
        raise WrongDefinitionError(
            f"{given.origin} names nobody: write names separated by commas, or leave it unset: then whoever "
            "Airflow lets may decide"
        )
    for name in names:
        if wrong.search(name):
            raise WrongDefinitionError(
                f"{given.origin} has {name}, which is no name: write names separated by commas, without quotes"
            )
    return names


def umask(environ: Mapping[str, str]) -> int:
    """The permissions that nobody gets on files and folders that are made: the group's and others', by default."""
    return _umask(_setting(environ, "umask"))


def job_environment(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The names and patterns of the variables that a Spark job sees beside those that every job sees."""
    return listed(_setting(environ, "job_environment").value)


def _setting(environ: Mapping[str, str], name: str) -> Given:
    given = airflow_options(environ, tuple(DEFAULTS)) | _variables(environ)
    return given.get(name) or Given(DEFAULTS[name], variable(name))


def _umask(given: Given) -> int:
    """The owner's permissions can't be taken: nobody could read what was just written."""
    if not re.fullmatch("0?0[0-7]{2}", given.value):
        raise WrongDefinitionError(
            f"{given.origin} is {given.value}: write three octal digits that leave the owner's rights, as 077 (nobody "
            "else may read), 027 (the group may) or 007 (the group may write, too)"
        )
    return int(given.value, 8)


def _schedule(given: Given) -> str:
    """What Airflow takes: else one setting would take every DAG of Tidegate away."""
    if given.value in {"", DEFAULTS["monitor_schedule"]}:
        return given.value
    if given.value not in PRESETS and (wrong := cron_complaint(given.value)):
        raise WrongDefinitionError(
            f"{given.origin} is {given.value} ({wrong}): write a cron expression, as */5 * * * *, or one of "
            f"{', '.join(PRESETS)}"
        )
    return given.value


def _expanded(path: str) -> Path:
    """The path with a leading `~/` replaced by the user's home folder."""
    return Path.home() / path[2:] if path == "~" or path.startswith("~/") else Path(path)


def _normal(path: str) -> str:
    return "/" + normpath(path).lstrip("/")


def _logs(home: Path, given: Given) -> Path:
    if "://" in given.value:
        raise WrongDefinitionError(
            f"{given.origin} is {redact(given.value)}: name a folder of this machine, as data/logs"
        )
    return Path(normpath(home / _expanded(given.value)))


def _landing_uri(home: Path, given: Given) -> str:
    if has_password(given.value):
        raise WrongDefinitionError(
            f"{given.origin} is {redact(given.value)}: a landing's URI stands in manifests, logs and the ledger, and "
            "can't hold credentials; give them as the file system's own environment has them (AWS_ACCESS_KEY_ID, ...)"
        )
    try:
        uri = absolute_uri(home, given.value)
    except WrongDefinitionError as error:
        raise WrongDefinitionError(f"{given.origin}: {error}") from None
    if not _LANDING.fullmatch(uri):
        raise WrongDefinitionError(
            f"{given.origin} is {redact(given.value)}, which is no place to land in: write a path, as data/landing, or "
            "a URI, as hdfs://host/folder or s3://connection@bucket/folder (file, hdfs, s3, gs, abfs or abfss)"
        )
    if scheme(uri) not in _WITH_FOLDERS and (unkept := unkept_name(uri)):
        raise WrongDefinitionError(f"{given.origin} is {redact(given.value)}, which must not have {unkept}")
    return uri


def _ledger_url(home: Path, given: Given) -> str:
    if "://" not in given.value:
        raise WrongDefinitionError(
            f"{given.origin} isn't a SQLAlchemy URL: write sqlite:///data/ledger.db or "
            "postgresql+psycopg2://user:password@host/database"
        )
    dialect, _, rest = given.value.partition("://")
    backend = dialect.partition("+")[0]
    if backend not in ("sqlite", "postgresql"):
        raise WrongDefinitionError(
            f"{given.origin}: the ledger can't be kept in {backend}: write sqlite:///data/ledger.db or "
            "postgresql+psycopg2://user:password@host/database"
        )
    if backend == "postgresql":
        return given.value
    path, mark, query = rest.removeprefix("/").partition("?")
    if path in ("", ":memory:"):
        raise WrongDefinitionError(
            f"{given.origin} is {redact(given.value)}, a database in memory, empty for each task anew: name a file"
        )
    if path.startswith("file:"):
        raise WrongDefinitionError(
            f"{given.origin} is {redact(given.value)}, a URI of SQLite's own: name the file, as sqlite:///data/ledger.db"
        )
    return f"{dialect}:///{home / path}{mark}{query}"
