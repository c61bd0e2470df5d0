"""Definitions are checked against the outside at once, and what they have in common is asked once."""

from pathlib import Path
from threading import Barrier, Event

from tidegate.checks.connection_check import connected
from tidegate.config.check import examine
from tidegate.config.settings import Settings
from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection

DEFINITION = """topics: [a]
consumer: {{group.id: {0}}}
processing: {{kind: http, uri: "http://127.0.0.1/{0}", connection: {0}, output: data/{0}}}
"""
LONGEST = 20.0
A_MOMENT = 0.2


class Meeting:
    """Connections of HTTP servers of which each is found once the other is looked for, and a cluster's."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._servers = Barrier(2)
        self._again = Event()

    def get(self, connection_id: str) -> Connection:
        self.asked.append(connection_id)
        if connection_id != "kafka_default":
            self._servers.wait(LONGEST)
        elif self.asked.count(connection_id) > 1:
            self._again.set()
        else:
            self._again.wait(A_MOMENT)  # for somebody who shouldn't come
        raise WrongDefinitionError(f"there is no Airflow connection {connection_id}")


def test_definitions_are_looked_at_at_once_and_their_cluster_is_asked_once(tmp_path: Path) -> None:
    folder = tmp_path / "include/subscriptions"
    folder.mkdir(parents=True)
    for name in ("orders", "parcels"):
        (folder / f"{name}.yaml").write_text(DEFINITION.format(name))
    settings, connections = Settings.from_environment({"TIDEGATE_HOME": str(tmp_path)}), Meeting()
    report = connected(examine([folder], tmp_path), settings, connections)
    assert [(Path(each.file).stem, each.rule) for each in report.errors] == [
        ("orders", "no-broker"),
        ("orders", "no-server"),
        ("parcels", "no-broker"),
        ("parcels", "no-server"),
    ]
    assert sorted(connections.asked) == ["kafka_default", "orders", "parcels"]
