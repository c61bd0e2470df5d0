"""The compose file is valid, and agrees with itself, with the repository and with what the image installs."""

import ast
import base64
import inspect
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from compose_spec import PyCompose
from ruamel.yaml import YAML
from sqlalchemy import make_url

from tidegate.config.settings import Settings
from tidegate.spark.child import _GRACE
from tidegate_local import flights
from tidegate_local.broker import broker_properties
from tidegate_local.kafka_jars import KAFKA_VERSION

ROOT = Path(__file__).parents[2]
HOME = "/opt/tidegate"
DATA = f"{HOME}/data"
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?P<rule>:\?|:-)?(?P<text>[^}]*)\}")
ENDPOINT = re.compile(r"(?<![\w.])(?P<host>localhost|[a-z][a-z-]*):(?P<port>\d+)(?![\w@])")
OF_ITS_OWN_NETWORK = {"listeners", "controller.quorum.voters", "log.dirs"}


def interpolate(node: Any, env: Mapping[str, str]) -> Any:
    """Fill in ${NAME}, ${NAME:-default} and ${NAME:?complaint}, in values only, as Compose does."""

    def value(found: re.Match[str]) -> str:
        if env.get(found["name"]):
            return env[found["name"]]
        if found["rule"] != ":-":
            raise KeyError(found["name"])
        return found["text"]

    if isinstance(node, dict):
        return {key: interpolate(each, env) for key, each in node.items()}
    if isinstance(node, list):
        return [interpolate(each, env) for each in node]
    return VARIABLE.sub(value, node) if isinstance(node, str) else node


def new_env() -> str:
    return subprocess.run(["sh", ROOT / "docker/new-env.sh"], capture_output=True, text=True, check=True).stdout


@cache
def secrets() -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.+)$", new_env(), flags=re.MULTILINE))


def load(**env: str) -> dict[str, Any]:
    """The compose file as Compose sees it: merged, and filled in from the environment and a fresh .env."""
    return interpolate(YAML(typ="safe").load(ROOT / "docker-compose.yaml"), secrets() | env)


COMPOSE = load()
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if "build" in service]
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text().replace("\\\n", " ")


def validate(compose: dict[str, Any]) -> None:
    PyCompose.from_json(json.dumps(compose)).validate()


def command(service: str) -> list[str]:
    return SERVICES[service].get("command", [])


def mounts(service: str) -> dict[str, str]:
    """What is mounted in a service: target -> source."""
    pairs = (volume.split(":") for volume in SERVICES[service].get("volumes", []))
    return {target: source for source, target, *_ in pairs}


def after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def kafka_listeners(property_name: str = "KAFKA_LISTENERS") -> dict[str, tuple[str, int]]:
    found = re.findall(r"(\w+)://([\w.]*):(\d+)", SERVICES["kafka"]["environment"][property_name])
    return {name: (host, int(port)) for name, host, port in found}


def listening(service: str) -> set[int]:
    """The ports that a service's own settings and command make it listen on."""
    words = command(service)
    if service == "kafka":
        return {port for _, port in kafka_listeners().values()}
    if service == "postgres":
        return {5432}  # the image's own
    options = {option for option in ("--port", "--webui-port") if option in words}
    bound = re.findall(r"grpc\.binding\.port=(\d+)", " ".join(words))
    return {int(after(words, option)) for option in options} | {int(port) for port in bound}


def texts(node: Any) -> Iterator[str]:
    match node:
        case dict():
            for each in node.values():
                yield from texts(each)
        case list():
            for each in node:
                yield from texts(each)
        case str():
            yield node


def bytes_of(size: str) -> int:
    return int(size[:-1]) << {"k": 10, "m": 20, "g": 30}[size[-1]]


def seconds(duration: str) -> int:
    return int(duration[:-1]) * {"s": 1, "m": 60}[duration[-1]]


# --- the specification


def test_the_file_is_valid() -> None:
    validate(COMPOSE)
    assert COMPOSE["name"] == "tidegate"
    assert "version" not in COMPOSE


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("port", ["127.0.0.1:1:1"], "port"),
        ("ports", ["127.0.0.1:none:1"], "port"),
        ("depends_on", {"kafka": {"condition": "service_heathy"}}, "service_heathy"),
        ("healthcheck", {"test": ["CMD", "true"], "interval": "5 parsecs"}, "duration"),
        ("restart", "now and then", "unless-stopped"),
        ("networks", ["nowhere"], "nowhere"),
    ],
)
def test_a_broken_file_is_refused(key: str, value: object, complaint: str) -> None:
    broken = json.loads(json.dumps(COMPOSE))
    broken["services"]["flights"][key] = value
    with pytest.raises(ValueError, match=complaint):
        validate(broken)


def test_every_secret_must_be_set_and_new_env_makes_each_of_them() -> None:
    text = (ROOT / "docker-compose.yaml").read_text()
    required = {found["name"] for found in VARIABLE.finditer(text) if found["rule"] != ":-"}
    assert required == set(secrets())
    for name in required:
        with pytest.raises(KeyError, match=name):
            load(**{name: ""})


def test_new_env_draws_fresh_secrets_and_shows_the_defaults() -> None:
    again = new_env()
    assert not any(secret in again for secret in secrets().values())
    assert len(base64.urlsafe_b64decode(secrets()["TIDEGATE_AIRFLOW_FERNET_KEY"])) == 32
    found = VARIABLE.finditer((ROOT / "docker-compose.yaml").read_text())
    defaults = {each["name"]: each["text"] for each in found if each["rule"] == ":-"}
    assert dict(re.findall(r"^#(\w+)=(.*)$", again, flags=re.MULTILINE)) == defaults


# --- the file and itself


def test_who_waits_for_whom() -> None:
    for service in SERVICES.values():
        for name, wait in service.get("depends_on", {}).items():
            if wait["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[name]
            else:
                assert wait["condition"] == "service_completed_successfully"
                assert SERVICES[name]["restart"] == "no"


def test_every_service_has_a_healthcheck_or_ends_by_itself() -> None:
    for name, service in SERVICES.items():
        assert ("healthcheck" in service) != (service["restart"] == "no"), name


def test_ports_are_published_on_loopback_and_lead_to_a_listener() -> None:
    published = [(name, port) for name, service in SERVICES.items() for port in service.get("ports", [])]
    for name, port in published:
        address, host_port, container_port = port.split(":")
        assert address == "127.0.0.1"
        assert host_port.isdecimal()
        assert int(container_port) in listening(name)
    host_ports = [port.split(":")[1] for _, port in published]
    assert len(host_ports) == len(set(host_ports)) == 3


def test_every_address_is_one_that_the_service_listens_on() -> None:
    seen = set[str]()
    for name, service in SERVICES.items():
        kept = {key: service.get(key) for key in ("command", "environment", "healthcheck")}
        environment = {
            key: text for key, text in (kept["environment"] or {}).items() if key != "AIRFLOW__API__BASE_URL"
        }
        for text in texts(kept | {"environment": environment}):
            for found in ENDPOINT.finditer(text):
                host = name if found["host"] == "localhost" else found["host"]
                assert int(found["port"]) in listening(host), text
                seen.add(found[0])
    assert {"kafka:9092", "postgres:5432", "spark-master:7077", "airflow-api-server:8080"} <= seen


def test_airflows_connections_lead_to_kafka_and_spark_connect() -> None:
    environment = SERVICES["airflow-scheduler"]["environment"]
    kafka = json.loads(environment["AIRFLOW_CONN_KAFKA_DEFAULT"])
    assert kafka == {"conn_type": "kafka", "extra": {"bootstrap.servers": "kafka:9092"}}
    spark = json.loads(environment["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert spark["conn_type"] == "spark_connect"
    assert spark["port"] in listening(spark["host"])


def test_the_base_url_is_the_published_port() -> None:
    api = load(TIDEGATE_AIRFLOW_PORT="18080")["services"]["airflow-api-server"]
    assert api["ports"] == ["127.0.0.1:18080:8080"]
    assert api["environment"]["AIRFLOW__API__BASE_URL"] == "http://localhost:18080"


def test_data_is_at_one_path_everywhere() -> None:
    users = {name for name in SERVICES if "data" in mounts(name).values()}
    assert {"airflow-scheduler", "spark-worker", "spark-connect"} <= users
    assert {mounts(name).get(DATA) for name in users} == {"data"}
    assert {SERVICES[name]["image"] for name in users} == {SERVICES["flights"]["image"]}  # one user id writes
    used = {source for name in SERVICES for source in mounts(name).values() if not source.startswith("./")}
    assert used == set(COMPOSE["volumes"])


def test_the_ledger_is_a_database_of_its_own_beside_airflows() -> None:
    environment = SERVICES["airflow-scheduler"]["environment"]
    ledger, airflow = (
        make_url(environment[name]) for name in ("TIDEGATE_LEDGER", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN")
    )
    assert (ledger.host, ledger.port) == ("postgres", 5432)
    assert ledger.set(database="airflow") == airflow
    postgres = SERVICES["postgres"]["environment"]
    assert (airflow.database, ledger.database) == (postgres["POSTGRES_DB"], "tidegate")
    assert (ledger.username, ledger.password) == (postgres["POSTGRES_USER"], postgres["POSTGRES_PASSWORD"])
    [script] = [source for target, source in mounts("postgres").items() if target.startswith("/docker-entrypoint")]
    assert f"CREATE DATABASE {ledger.database};" in (ROOT / script).read_text()
    assert ledger.render_as_string(hide_password=False) in Settings.from_environment(environment).ledger


def test_landing_and_lake_are_on_the_shared_volume(tmp_path: Path) -> None:
    environment = SERVICES["airflow-scheduler"]["environment"]
    settings = Settings.from_environment(environment | {"TIDEGATE_HOME": str(tmp_path)})
    assert settings.landing.startswith(f"file://{DATA}/")
    assert mounts("airflow-scheduler")[str(settings.subscriptions)] == "./include/subscriptions"
    assert re.search(rf"TIDEGATE_HOME={HOME}\s", DOCKERFILE)
    for path in (ROOT / "include/subscriptions").glob("*.yaml"):
        output = YAML(typ="safe").load(path)["processing"]["output"]
        assert (PurePosixPath(HOME) / output).is_relative_to(DATA)


# --- what a service may take of the machine


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_no_more_rights_than_it_needs_and_bounds(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert bytes_of(service["mem_limit"]) <= 4 << 30
    assert 0 < service["pids_limit"] <= 4096
    assert service["logging"]["driver"] == "json-file"
    options = service["logging"]["options"]
    assert bytes_of(options["max-size"]) * int(options["max-file"]) <= 50 << 20
    assert seconds(service["stop_grace_period"]) >= 30


def test_only_postgres_is_given_capabilities_with_which_it_becomes_its_own_user() -> None:
    given = {name: set(service["cap_add"]) for name, service in SERVICES.items() if "cap_add" in service}
    assert given == {"postgres": {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}}
    assert re.search(r"^USER tidegate$", DOCKERFILE, flags=re.MULTILINE)


def test_what_java_may_take_is_within_the_memory_of_its_service() -> None:
    heap = re.search(r"-Xmx(\w+)", SERVICES["kafka"]["environment"]["KAFKA_HEAP_OPTS"])
    assert heap is not None
    assert bytes_of(heap[1]) < bytes_of(SERVICES["kafka"]["mem_limit"])
    executors = bytes_of(after(command("spark-worker"), "--memory"))
    worker = 1 << 30  # Spark's own default for its daemons
    assert executors + worker < bytes_of(SERVICES["spark-worker"]["mem_limit"])


def test_a_stopped_task_has_the_time_to_take_its_spark_job_back() -> None:
    assert seconds(SERVICES["airflow-scheduler"]["stop_grace_period"]) > 2 * _GRACE


def test_each_image_that_is_pulled_is_named_by_its_digest() -> None:
    pulled = {service["image"] for service in SERVICES.values() if "build" not in service}
    built = SERVICES["flights"]["image"]
    assert all(re.fullmatch(r"[\w./]+@sha256:[0-9a-f]{64}", image) for image in pulled - {built})
    assert len(pulled - {built}) == 2


# --- the file and the project's own settings


def test_the_broker_is_set_as_the_local_one() -> None:
    kafka = SERVICES["kafka"]
    assert f"image: {kafka['image']}  # {KAFKA_VERSION}\n" in (ROOT / "docker-compose.yaml").read_text()
    properties = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in kafka["environment"].items()
        if name.startswith("KAFKA_")
    }
    local = broker_properties(Path("log"), port=1, controller_port=2)
    for name in local.keys() - OF_ITS_OWN_NETWORK:
        assert properties[name] == local[name], name
    assert properties["log.dirs"] in mounts("kafka")
    assert len(base64.urlsafe_b64decode(kafka["environment"]["CLUSTER_ID"] + "==")) == 16


def test_the_broker_tells_every_client_an_address_it_can_reach() -> None:
    bound, advertised = kafka_listeners(), kafka_listeners("KAFKA_ADVERTISED_LISTENERS")
    assert advertised == {"PLAINTEXT": ("kafka", bound["PLAINTEXT"][1]), "HOST": ("127.0.0.1", bound["HOST"][1])}
    kafka = load(TIDEGATE_KAFKA_PORT="39092")["services"]["kafka"]
    assert kafka["ports"] == [f"127.0.0.1:39092:{bound['HOST'][1]}"]
    assert "HOST://127.0.0.1:39092" in kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"]


def test_every_setting_exists() -> None:
    spec = find_spec("airflow")
    assert spec is not None
    assert spec.origin is not None
    sections = YAML(typ="safe").load(Path(spec.origin).parent / "config_templates/config.yml")
    for name in OURS:
        for variable in SERVICES[name].get("environment", {}):
            match variable.split("__"):
                case ["AIRFLOW", section, option]:
                    assert option.lower() in sections[section.lower()]["options"]
                case _ if variable.startswith("TIDEGATE_"):
                    assert variable in Settings.from_environment({}).redacted()
                case _:
                    assert variable.startswith("AIRFLOW_CONN_") or variable == "PYSPARK_PYTHON"


# --- the file and what the image holds


def copied() -> list[str]:
    lines = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, flags=re.MULTILINE)
    return [word for line in lines for word in line.split()[:-1]]


def test_paths_named_in_the_services_exist() -> None:
    for name, service in SERVICES.items():
        for target, source in mounts(name).items():
            assert not source.startswith("./") or (ROOT / source).exists(), source
            if name in OURS and not source.startswith("./"):
                assert re.search(rf"install .*--owner=tidegate .*{target}\b", DOCKERFILE), target
        if name in OURS:
            named = {path for text in texts(service) for path in re.findall(rf"{HOME}/([\w./-]+)", text)}
            for path in {path for path in named if not path.startswith(("data", ".venv/"))}:
                assert (ROOT / path).exists(), path
                assert any(path == each or path.startswith(f"{each}/") for each in copied()), path


def test_spark_commands_name_classes_of_the_installed_spark() -> None:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    names = set[str]()
    for pattern in ("spark-core_*.jar", "spark-connect_*.jar"):
        for jar in (Path(spec.origin).parent / "jars").glob(pattern):
            names |= set(zipfile.ZipFile(jar).namelist())
    classes = [word for name in OURS for word in command(name) if word.startswith("org.apache.spark.")]
    assert len(classes) == 3
    assert all(f"{each.replace('.', '/')}.class" in names for each in classes)


def test_commands_are_programs_of_the_environment() -> None:
    spec = find_spec("airflow")
    assert spec is not None
    assert spec.origin is not None
    airflow_cli = (Path(spec.origin).parent / "cli/cli_config.py").read_text()
    for name in OURS:
        program, *arguments = command(name)
        assert os.access(Path(sys.executable).parent / program, os.X_OK), program
        if program == "airflow":
            words = arguments[: arguments.index("--port")] if "--port" in arguments else arguments
            assert all(f'name="{word}"' in airflow_cli for word in words)


def test_flights_calls_what_publishes_them() -> None:
    program, option, source = command("flights")
    assert (program, option) == ("python", "-c")
    imports, statement = ast.parse(source).body
    assert ast.unparse(imports) == "from tidegate_local.flights import publish_flights"
    [call] = [each for each in ast.walk(statement) if ast.unparse(each).startswith("publish_flights(")]
    assert isinstance(call, ast.Call)
    inspect.signature(flights.publish_flights).bind(*map(ast.literal_eval, call.args))
