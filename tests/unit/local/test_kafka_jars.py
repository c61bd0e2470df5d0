"""Kafka's jars are those of the lock file, or they are fetched again."""

import hashlib
from pathlib import Path

import pytest

from tidegate_local.errors import LocalStackError
from tidegate_local.java import Java
from tidegate_local.kafka_jars import KAFKA_VERSION, Jar, jars_folder, kafka_jars, locked_jars, wrong_jars


def _jar(folder: Path, name: str, content: bytes) -> Jar:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}-1.0.jar").write_bytes(content)
    return Jar(f"org.example:{name}:1.0", hashlib.sha256(content).hexdigest())


def _java_that_fails(folder: Path) -> Java:
    program = folder / "java"
    program.write_text("#!/bin/sh\necho 'SERVER ERROR: no route to host'\nexit 1\n")
    program.chmod(0o755)
    return Java(program, folder, 17)


def test_the_lock_has_the_pinned_broker_and_a_hash_for_each_jar():
    jars = locked_jars()
    assert f"kafka_2.13-{KAFKA_VERSION}.jar" in {jar.file for jar in jars}
    assert all(len(jar.sha256) == 64 for jar in jars)
    assert len({jar.file for jar in jars}) == len(jars)


def test_missing_and_changed_jars_are_wrong(tmp_path: Path):
    good, changed = _jar(tmp_path, "good", b"good"), _jar(tmp_path, "changed", b"before")
    (tmp_path / changed.file).write_bytes(b"after")
    missing = Jar("org.example:missing:1.0", "0" * 64)
    assert wrong_jars(tmp_path, [good, changed, missing]) == [changed.file, missing.file]


def test_a_failed_fetch_tells_what_ivy_said_and_leaves_nothing(tmp_path: Path):
    cache = tmp_path / "cache"
    with pytest.raises(LocalStackError, match=r"(?s)check the network.*no route to host"):
        kafka_jars(_java_that_fails(tmp_path), cache)
    assert list(cache.iterdir()) == []


def test_a_fetch_that_brings_too_little_is_refused_and_leaves_nothing(tmp_path: Path):
    java = _java_that_fails(tmp_path)
    java.program.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(LocalStackError, match=r"aren't those of kafka_jars.lock"):
        kafka_jars(java, tmp_path / "cache")
    assert not jars_folder(tmp_path / "cache").exists()
