"""What failed a job is told wherever a person looks: by the run, the status and the question."""

import json
import uuid
from pathlib import Path

import pytest
from by_night import one_in
from desk import TIDEGATE, Desk

from tidegate.config.reading import load
from tidegate.config.settings import Settings
from tidegate.model.batch import Resolution
from tidegate.runtime.connections import AirflowConnections
from tidegate.runtime.pipeline import open_pipeline
from tidegate_airflow.question import body

pytestmark = [pytest.mark.broker, pytest.mark.spark]

TRANSFORMS = Path(__file__).parents[1] / "spark" / "jobs" / "failing_transforms.py"

FAILURES = {
    "mistyped": "AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION]",
    "raising": "SparkRuntimeException: [USER_RAISED_EXCEPTION] order 17 has no country",
    "casting": "NumberFormatException: [CAST_INVALID_INPUT] The value 'a17'",
    "full": "OSError: [Errno 28] No space left on device",
}


@pytest.mark.parametrize("transform", one_in(2, FAILURES))
def test_over_spark_connect(desk: Desk, transform: str) -> None:
    name = f"t{uuid.uuid4().hex[:8]}"
    definition = desk.define(
        name,
        {
            "topics": [name],
            "consumer": {"group.id": f"{name}-lake", "auto.offset.reset": "earliest"},
            "max-retries": 0,
            "failure-strategy": "ask",
            "processing": {"transform": f"failing_transforms:{transform}", "output": "lake"},
        },
    )
    desk.environment["PYTHONPATH"] = str(TRANSFORMS.parent)
    desk.produce(name, [b"a17"])
    lines = TRANSFORMS.read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {transform}")]

    ran = json.loads(desk.run(TIDEGATE, "run", name, "--json", status=1))
    shown = desk.run(TIDEGATE, "status", name)
    settings = Settings.from_environment({"TIDEGATE_HOME": str(desk.home)})
    with open_pipeline(load(definition), settings, AirflowConnections(desk.environment)) as pipeline:
        asked = pipeline.question()

    assert asked is not None
    assert asked.batch.resolution is Resolution.ASK
    log = settings.logs / name / f"{ran['batch_id']}-1.log"
    assert log.stat().st_mode & 0o777 == 0o600
    assert "Traceback" in log.read_text()
    wanted = (FAILURES[transform], f"{TRANSFORMS}:{number}", lines[number - 1].strip(), str(log))
    for told in (ran["error"], asked.reason, body(asked, load(definition)), shown):
        assert [text for text in wanted if _plain(text) not in _plain(told)] == []


def _plain(text: str) -> str:
    """The text, however its lines were broken."""
    return "".join(text.split())
