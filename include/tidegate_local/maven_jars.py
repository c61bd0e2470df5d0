"""Fetches jars from Maven Central, exactly those of a lock file, with the Ivy that PySpark ships.

Ivy gets settings and a home of its own, so that neither its cache nor the local Maven repository, which may hold
half an artifact, has a say. A proxy reaches it as it reaches every Java program, by JAVA_TOOL_OPTIONS.
"""

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from tidegate_local.errors import LocalStackError
from tidegate_local.java import Java

_FETCH_SECONDS = 900
_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of Java: what it compiles for hours of use, a program of seconds doesn't regain."""
_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="{usepoms}"/></resolvers>
</ivysettings>
"""


@dataclass(frozen=True)
class Jar:
    """One locked jar: its Maven coordinates, and the SHA-256 of its bytes in hexadecimal.

    The coordinates are `group:name:version` or `group:name:version:classifier`.
    """

    coordinates: str
    sha256: str

    @property
    def file(self) -> str:
        """The name of the jar's file."""
        _group, *parts = self.coordinates.split(":")
        return f"{'-'.join(parts)}.jar"


@dataclass(frozen=True)
class JarSet:
    """Jars that belong together: what they are for, their lock file, and their folder below the cache.

    `owner` says whose they are, as errors do: "Kafka's". `header` begins the lock file and says how it is made.
    """

    owner: str
    lock: str
    folder: str
    header: str

    def locked(self, text: str | None = None) -> tuple[Jar, ...]:
        """The jars of a lock file's text, by default of the project's own."""
        if text is None:
            text = files("tidegate_local").joinpath(self.lock).read_text(encoding="utf-8")
        return tuple(Jar(*line.split()) for line in text.splitlines() if line and not line.startswith("#"))

    def place(self, cache: Path) -> Path:
        """Where the jars are, or will be, below the cache folder."""
        return cache / self.folder / "libs"

    def fetched(self, java: Java, cache: Path) -> Path:
        """Return the folder that holds the jars, fetching them if any is missing or isn't as locked.

        The folder appears whole or not at all, so an interrupted fetch leaves nothing that looks fetched. Of several
        processes one fetches and the others wait for it: a folder that somebody runs from is never replaced.
        Raises LocalStackError if the jars can't be had or aren't those of the lock.
        """
        folder, jars = self.place(cache.resolve()), self.locked()
        if wrong_jars(folder, jars):
            cache.mkdir(parents=True, exist_ok=True)
            with (cache / f"{self.folder}.lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if wrong_jars(folder, jars):
                    self._fetch(java, cache, jars)
        return folder

    def _fetch(self, java: Java, cache: Path, jars: Sequence[Jar]) -> None:
        folder = self.place(cache.resolve())
        with tempfile.TemporaryDirectory(dir=cache.resolve(), prefix="fetching-") as name:
            fetched = Path(name) / self.folder
            pattern = fetched / "libs" / "[artifact]-[revision](-[classifier]).[ext]"
            self._retrieve(java, Path(name), (jar.coordinates for jar in jars), pattern, transitive=False)
            wrong = wrong_jars(fetched / "libs", jars)
            if wrong:
                raise LocalStackError(
                    f"{self.owner} jars aren't those of {self.lock}: {', '.join(wrong)}. Try again; if it stays so, "
                    f"the mirror that Java is set up to use serves other files."
                )
            shutil.rmtree(folder.parent, ignore_errors=True)
            fetched.rename(folder.parent)

    def paths(self, java: Java, cache: Path) -> tuple[Path, ...]:
        """Return each of the jars, fetching them if need be; see `fetched`."""
        folder = self.fetched(java, cache)
        return tuple(folder / jar.file for jar in self.locked())

    def lock_text(self, java: Java, roots: Iterable[str], *, transitive: bool) -> str:
        """Resolve afresh what the roots name, with `transitive` what that needs too: the lock file's new text."""
        return self.text(self.resolved(java, roots, transitive=transitive))

    def text(self, jars: Iterable[Jar]) -> str:
        """The lock file's text for these jars."""
        lines = sorted(f"{jar.coordinates} {jar.sha256}\n" for jar in jars)
        return self.header + "".join(lines)

    def resolved(self, java: Java, roots: Iterable[str], *, transitive: bool) -> tuple[Jar, ...]:
        """Resolve afresh what the roots name, with `transitive` what that needs too. Raises LocalStackError."""
        with tempfile.TemporaryDirectory() as name:
            pattern = Path(name) / "libs" / "[organisation]:[module]:[revision](:[classifier]).[ext]"
            self._retrieve(java, Path(name), roots, pattern, transitive=transitive)
            return tuple(Jar(jar.stem, str(_sha256(jar))) for jar in sorted((Path(name) / "libs").glob("*.jar")))

    def _retrieve(self, java: Java, work: Path, coordinates: Iterable[str], pattern: Path, *, transitive: bool) -> None:
        settings, module = work / "ivysettings.xml", work / "ivy.xml"
        settings.write_text(_SETTINGS.format(usepoms=str(transitive).lower()), encoding="utf-8")
        module.write_text(_ivy_module(coordinates, transitive=transitive), encoding="utf-8")
        command = [
            str(java.program),
            *_SHORT_LIVED,
            f"-Divy.default.ivy.user.dir={work / 'ivy'}",
            "-jar",
            str(_ivy_jar()),
            "-settings",
            str(settings),
            "-ivy",
            str(module),
            "-retrieve",
            str(pattern),
        ]
        try:
            ended = subprocess.run(
                command, cwd=work, capture_output=True, text=True, check=False, timeout=_FETCH_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise LocalStackError(
                f"Fetching {self.owner} jars took longer than {_FETCH_SECONDS} s: is Maven Central within reach?"
            ) from error
        if ended.returncode:
            complaints = [line.strip() for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
            raise LocalStackError(
                f"{self.owner} jars could not be fetched from Maven Central; check the network (a proxy goes into "
                "JAVA_TOOL_OPTIONS) and try again. Ivy's last lines:\n" + "\n".join(complaints[-12:])
            )


def wrong_jars(folder: Path, jars: Sequence[Jar]) -> list[str]:
    """Return the names of the jars that are missing in the folder, or whose bytes aren't as locked."""
    return [jar.file for jar in jars if _sha256(folder / jar.file) != jar.sha256]


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _ivy_module(coordinates: Iterable[str], *, transitive: bool) -> str:
    dependencies = "".join(_ivy_dependency(*each.split(":"), transitive=transitive) for each in coordinates)
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="tidegate" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def not_in_pyspark(jars: Iterable[Jar]) -> tuple[Jar, ...]:
    """Leave out the jars that PySpark ships in a version of its own, which Spark would prefer anyway."""
    shipped = {jar.name.rpartition("-")[0] for jar in _pyspark_jars().glob("*.jar")}
    return tuple(jar for jar in jars if jar.coordinates.split(":")[1] not in shipped)


def _ivy_dependency(group: str, name: str, version: str, classifier: str = "", *, transitive: bool) -> str:
    """A jar; with a classifier the plain one, too: whoever names one of a module's jars leaves out the others."""
    jar = f'<artifact name="{name}" type="jar" ext="jar"'
    both = f'{jar}/>{jar} m:classifier="{classifier}"/>' if classifier else ""
    return (
        f'<dependency org="{group}" name="{name}" rev="{version}" conf="default->default" '
        f'transitive="{str(transitive).lower()}">{both}</dependency>'
    )


def _ivy_jar() -> Path:
    folder = _pyspark_jars()
    found = sorted(folder.glob("ivy-*.jar"))
    if not found:
        raise LocalStackError(f"PySpark's Ivy jar is not in {folder}: run make install.")
    return found[-1]


def _pyspark_jars() -> Path:
    spec = find_spec("pyspark")
    return Path(spec.origin).parent / "jars" if spec and spec.origin else Path()
