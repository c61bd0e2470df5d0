from pathlib import Path

import pytest

from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection
from tidegate.spark.submit import SubmitProcessor, submit_command

JOB = "process_batch.py"


def connection(**values: object) -> Connection:
    known = {"host": None, "port": None, "login": None, "password": None, "extra": {}, **values}
    return Connection(id="spark_default", type="spark", **known)  # type: ignore[arg-type]


def test_host_and_port_make_the_master() -> None:
    command = submit_command(connection(host="spark://master", port=7077), JOB)
    assert command == ("spark-submit", "--master", "spark://master:7077", "--name", "tidegate", "process_batch.py")


def test_a_local_master_has_no_port() -> None:
    assert "local[2]" in submit_command(connection(host="local[2]"), JOB)


def test_without_a_host_it_is_refused_and_not_yarn_in_silence() -> None:
    with pytest.raises(WrongDefinitionError, match="spark_default names no master"):
        submit_command(connection(), JOB)


def test_extras_of_the_connection_are_options() -> None:
    extra = {"deploy-mode": "cluster", "queue": "night", "namespace": "lake", "spark-binary": "spark3-submit"}
    command = submit_command(connection(host="k8s://cluster", extra=extra), JOB)
    assert command == (
        "spark3-submit",
        *("--master", "k8s://cluster", "--deploy-mode", "cluster", "--queue", "night", "--name", "tidegate"),
        *("--conf", "spark.kubernetes.namespace=lake"),
        "process_batch.py",
    )


def test_jars_that_spark_lacks_are_named_by_the_connection() -> None:
    extra = {"jars": "/a.jar,/b.jar", "packages": "org:c:1"}
    command = submit_command(connection(host="local[2]", extra=extra), JOB)
    assert command[3:] == ("--jars", "/a.jar,/b.jar", "--packages", "org:c:1", "--name", "tidegate", JOB)


@pytest.mark.parametrize("own", [None, "-XX:SharedArchiveFile=/a.jsa"], ids=["unset", "set"])
def test_java_compiles_quickly_unless_the_environment_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str | None
) -> None:
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    if own is not None:
        monkeypatch.setenv("SPARK_SUBMIT_OPTS", own)
    program = tmp_path / "spark-submit"
    program.write_text('#!/bin/sh\necho "options: $SPARK_SUBMIT_OPTS"\n')
    program.chmod(0o700)
    said: list[str] = []
    SubmitProcessor((str(program),)).run("file:///manifest", 30, said.append, lambda: None)
    assert said == [f"options: {own or '-XX:TieredStopAtLevel=1'}"]
