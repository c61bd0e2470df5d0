"""The page about executors: its DAG file gives each task the executor_config, as the scheduler reads it."""

from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
from documents import blocks

pytestmark = pytest.mark.airflow

CONFIG = {"pod_template_file": "/opt/airflow/pods/tidegate.yaml"}


def test_each_task_has_the_pages_executor_config(home: Path, tmp_path: Path) -> None:
    (home / "include/subscriptions/orders.yaml").write_text(
        "topics: [orders]\nconsumer: {group.id: orders}\nprocessing: {output: data/lake/orders}\n"
    )
    (block,) = [each for each in blocks("python") if each.page.name == "executors.md"]
    file = tmp_path / "dags" / str(block.file)
    file.parent.mkdir()
    file.write_text(block.text)

    bag = DagBag(file.parent, bundle_path=file.parent, bundle_name="dags-folder")

    assert bag.import_errors == {}
    read = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(bag.dags["orders"]))
    assert {task.task_id: task.executor_config for task in read.tasks} == dict.fromkeys(
        ("plan", "land", "process", "commit"), CONFIG
    )
