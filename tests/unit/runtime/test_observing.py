"""What is seen of a subscription whose definition can't be used."""

from pathlib import Path

from definition_files import LEAST

from tidegate.config.settings import Settings
from tidegate.runtime.observing import status_document
from tidegate.testing.connections import MemoryConnections

WRONG = "".join(f"max-retrys-{number}: 1\n" for number in range(11))


def test_of_many_errors_in_a_definition_the_first_are_named_and_the_others_counted(tmp_path: Path) -> None:
    settings = Settings.from_environment({"TIDEGATE_HOME": str(tmp_path), "AIRFLOW_HOME": str(tmp_path)})
    settings.subscriptions.mkdir(parents=True)
    (settings.subscriptions / "orders.yaml").write_text(LEAST + WRONG)
    told = status_document("orders", settings, MemoryConnections(), 10)
    assert (told["verdict"], "tidegate check" in told["action"]) == ("STALLED", True)
    first, *_, counted = told["reason"].split("; ")
    assert "max-retrys-0" in first
    assert counted.startswith("and ")
    assert counted.endswith(" more")
    assert len(told["reason"]) < 700
    assert "\n" not in told["reason"]
    assert not (tmp_path / "data").exists()
