"""What every pytest beside Tidegate pays for the plugin, and what the Spark of trials says where there is none."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tidegate.model.errors import SparkUnavailableError, WrongDefinitionError
from tidegate.trial import spark
from tidegate.trial.spark import trial_spark


def test_the_plugin_imports_nothing_of_tidegate_before_it_is_used() -> None:
    program = (
        "import json, sys; import tidegate.trial.pytest_plugin; print(json.dumps(sorted("
        "{each for each in sys.modules if each.startswith('tidegate')} | ({'pyarrow', 'pyspark'} & set(sys.modules)))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["tidegate", "tidegate.trial", "tidegate.trial.pytest_plugin"]


def test_the_spark_that_is_named_is_taken(tmp_path: Path) -> None:
    named = '{"conn_type": "spark", "host": "local[1]"}'
    with trial_spark({"TIDEGATE_TEST_SPARK": named}, tmp_path) as connection:
        assert (connection.type, connection.host) == ("spark", "local[1]")
    with pytest.raises(WrongDefinitionError, match="TIDEGATE_TEST_SPARK is no connection"):
        trial_spark({"TIDEGATE_TEST_SPARK": "local[1]"}, tmp_path).__enter__()


def test_without_jars_it_is_spark_submit_or_an_error_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = tmp_path / "client" / "pyspark"  # as pyspark-client installs it: no folder jars
    client.mkdir(parents=True)
    (client / "__init__.py").touch()
    monkeypatch.syspath_prepend(client.parent)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    assert find_spec("pyspark").origin == str(client / "__init__.py")
    program = tmp_path / "spark-submit"
    program.touch(mode=0o755)
    with trial_spark({"PATH": str(tmp_path)}, tmp_path) as connection:
        assert (connection.type, connection.host) == ("spark", "local[2]")
    with pytest.raises(WrongDefinitionError, match=r"there is no Spark here.*extra `test`.*TIDEGATE_TEST_SPARK"):
        trial_spark({"PATH": ""}, tmp_path).__enter__()


@pytest.mark.long
def test_a_server_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkUnavailableError, match=r"Spark doesn't start here: JAVA_HOME is .* install Java"):
        trial_spark({}, tmp_path / "spark").__enter__()
    assert spark.NAMED == "TIDEGATE_TEST_SPARK"
