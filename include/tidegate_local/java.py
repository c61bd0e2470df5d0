"""Finds the Java runtime that Kafka and Spark need, and refuses one that is missing or too old."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate_local.errors import PreflightError

OLDEST_JAVA = 17  # Spark 4 and Kafka 4's broker both need it
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_REMEDY = f"install Java {OLDEST_JAVA} or newer (a JRE is enough) and put it on PATH, or point JAVA_HOME at it"


@dataclass(frozen=True)
class Java:
    """A Java runtime that is new enough: its `java` program, its home folder and its major version."""

    program: Path
    home: Path
    version: int


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the Java of JAVA_HOME, else the first on PATH.

    Raises PreflightError if there is none, if it doesn't run, or if it is older than OLDEST_JAVA.
    """
    env = os.environ if environment is None else environment
    program = _program(env)
    try:
        answer = subprocess.run(
            [program, "-version"], env=dict(env), capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise PreflightError(f"Java at {program} doesn't run ({error}): {_REMEDY}.") from error
    version = major_version(answer.stderr + answer.stdout)
    if version is None:
        raise PreflightError(f"{program} -version names no version: {_REMEDY}.")
    if version < OLDEST_JAVA:
        raise PreflightError(f"Java at {program} is version {version}, too old: {_REMEDY}.")
    return Java(program=program, home=program.resolve().parent.parent, version=version)


def major_version(text: str) -> int | None:
    """Return the major version that `java -version` printed (8 for "1.8.0_292"), or None if it names none."""
    found = _VERSION.search(text)
    return int(found.group(1)) if found else None


def _program(env: Mapping[str, str]) -> Path:
    home = env.get("JAVA_HOME", "")
    if home:
        program = Path(home) / "bin" / "java"
        if not program.is_file():
            raise PreflightError(f"JAVA_HOME is {home}, where there is no bin/java: {_REMEDY}.")
        return program
    found = shutil.which("java", path=env.get("PATH", ""))
    if found is None:
        raise PreflightError(f"Java was not found: {_REMEDY}.")
    return Path(found)
