"""The command line as a person has it: `tidegate` in a process of its own, in a folder with definitions.

Its processes are forked (see `forking`); `desk` has those that are started as a person's shell does.
"""

import json
import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forking import run_tidegate

from tidegate.config.settings import Settings
from tidegate.runtime.connections import AirflowConnections
from tidegate.runtime.definitions import AllDefinitions
from tidegate.runtime.pipeline import Pipeline, open_pipeline
from tidegate.testing.copying import CopyingProcessor


class CommandLine:
    """A folder of an installation's own, whose connection `kafka_default` leads to these brokers.

    Its groups are its own too, whatever the subscriptions are called: other tests use the broker at the same time. So
    is its Airflow, which writes a configuration wherever it is asked for a connection.
    """

    def __init__(self, home: Path, bootstrap_servers: str, defaults: Mapping[str, Any] | None = None) -> None:
        """With `defaults` for definitions, in place of a poll timeout of seconds."""
        self.home = home
        self._defaults = {"poll-timeout.ms": 3000} if defaults is None else defaults
        self._mark = uuid.uuid4().hex[:8]
        self.subscriptions = home / "include" / "subscriptions"
        self.subscriptions.mkdir(parents=True)
        self._own = {"TIDEGATE_HOME": str(home), "AIRFLOW_HOME": str(home / "airflow")}
        self.connect("kafka_default", "kafka", **{"bootstrap.servers": bootstrap_servers})

    def connect(
        self,
        connection_id: str,
        kind: str,
        host: str | None = None,
        port: int | None = None,
        *,
        password: str | None = None,
        **extra: Any,
    ) -> None:
        """Set an Airflow connection."""
        said = {"conn_type": kind, "host": host, "port": port, "password": password, "extra": extra}
        self._own[f"AIRFLOW_CONN_{connection_id.upper()}"] = json.dumps(said)

    def set(self, variable: str, value: str) -> None:
        """Set a variable for all that is run from here on."""
        self._own[variable] = value

    def group(self, name: str) -> str:
        """The group of a subscription that is defined here, unless it says another."""
        return f"{name}-{self._mark}-lake"

    def define(self, name: str, topic: str | None = None, **properties: Any) -> None:
        """Write a definition; `properties` are its other lines, sections as mappings."""
        consumer = {"group.id": self.group(name), "auto.offset.reset": "earliest", **properties.pop("consumer", {})}
        processing = {"output": f"lake/{name}", **properties.pop("processing", {})}
        selection = {} if "partitions" in properties or "pattern" in properties else {"topics": [topic or name]}
        lines = {**selection, "consumer": consumer, "processing": processing, **self._defaults, **properties}
        text = "\n".join(f"{key}: {json.dumps(value)}" for key, value in lines.items())  # JSON is YAML
        (self.subscriptions / f"{name}.yaml").write_text(text + "\n", encoding="utf-8")

    def run(self, *arguments: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
        """`tidegate ...`, to its end."""
        given = self.environment | environment
        return run_tidegate(arguments, environment=given, folder=self.home, timeout=timeout)

    @property
    def environment(self) -> Mapping[str, str]:
        """What the command line sees."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEGATE_", "AIRFLOW_"))}
        return kept | self._own

    @contextmanager
    def pipeline(self, name: str) -> Iterator[Pipeline]:
        """The pipeline of a subscription that is defined here, with a job that copies in place of Spark's."""
        settings = Settings.from_environment(self.environment)
        subscription = AllDefinitions(settings).load(name)
        connections = AirflowConnections(self.environment)
        with open_pipeline(subscription, settings, connections, CopyingProcessor()) as pipeline:
            yield pipeline
