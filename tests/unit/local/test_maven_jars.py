"""Jars are those of their lock file, or they are fetched again."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from spark_s3_jars import SPARK_S3

from tidegate_local.errors import LocalStackError
from tidegate_local.java import Java
from tidegate_local.kafka_jars import KAFKA
from tidegate_local.maven_jars import Jar, JarSet, wrong_jars
from tidegate_local.spark_jars import SPARK
from tidegate_local.spark_table_jars import SPARK_TABLES

every = pytest.mark.parametrize("jars", [KAFKA, SPARK, SPARK_TABLES, SPARK_S3], ids=lambda jars: jars.owner)


def _jar(folder: Path, name: str, content: bytes) -> Jar:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}-1.0.jar").write_bytes(content)
    return Jar(f"org.example:{name}:1.0", hashlib.sha256(content).hexdigest())


def test_a_classifier_is_a_part_of_the_files_name() -> None:
    assert Jar("org.example:core:1.0:tests", "").file == "core-1.0-tests.jar"


def _java_that_fails(folder: Path) -> Java:
    program = folder / "java"
    program.write_text("#!/bin/sh\necho 'SERVER ERROR: no route to host'\nexit 1\n")
    program.chmod(0o755)
    return Java(program, folder, 17)


@every
def test_the_lock_has_a_hash_for_each_jar(jars: JarSet):
    locked = jars.locked()
    assert locked
    assert all(len(jar.sha256) == 64 for jar in locked)
    assert len({jar.file for jar in locked}) == len(locked)


def test_missing_and_changed_jars_are_wrong(tmp_path: Path):
    good, changed = _jar(tmp_path, "good", b"good"), _jar(tmp_path, "changed", b"before")
    (tmp_path / changed.file).write_bytes(b"after")
    missing = Jar("org.example:missing:1.0", "0" * 64)
    assert wrong_jars(tmp_path, [good, changed, missing]) == [changed.file, missing.file]


@every
def test_a_failed_fetch_tells_what_ivy_said_and_leaves_nothing(jars: JarSet, tmp_path: Path):
    cache = tmp_path / "cache"
    with pytest.raises(LocalStackError, match=rf"(?s){jars.owner} jars.*check the network.*no route to host"):
        jars.fetched(_java_that_fails(tmp_path), cache)
    assert [path.name for path in cache.iterdir()] == [f"{jars.folder}.lock"]


@every
def test_a_fetch_that_brings_too_little_is_refused_and_leaves_nothing(jars: JarSet, tmp_path: Path):
    java = _java_that_fails(tmp_path)
    java.program.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(LocalStackError, match=f"aren't those of {jars.lock}"):
        jars.fetched(java, tmp_path / "cache")
    assert not jars.place(tmp_path / "cache").exists()


def test_of_two_that_need_the_jars_one_fetches_and_the_other_takes_those(tmp_path: Path):
    content = b"a jar"
    (tmp_path / "jars.lock").write_text(f"org.example:one:1.0 {hashlib.sha256(content).hexdigest()}\n")
    jars = JarSet("Its", str(tmp_path / "jars.lock"), "its", "")
    java = _java_that_fails(tmp_path)
    java.program.write_text(
        f"#!/bin/sh\necho run >> {tmp_path / 'runs'}\nuntil [ -e {tmp_path / 'both'} ]; do sleep 0.05; done\n"
        "for pattern; do :; done\nfolder=${pattern%/*}\nmkdir -p $folder\nprintf 'a jar' > $folder/one-1.0.jar\n"
    )
    script = (
        "import sys\nfrom pathlib import Path\nfrom tidegate_local.java import Java\n"
        "from tidegate_local.maven_jars import JarSet\n"
        f"folder = Path({str(tmp_path)!r})\nprint('ready', flush=True)\n"
        "jars = JarSet('Its', str(folder / 'jars.lock'), 'its', '')\n"
        "jars.fetched(Java(folder / 'java', folder, 17), folder / 'cache')\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline() == "ready\n"
    (tmp_path / "both").touch()
    assert [process.wait(120) for process in both] == [0, 0]
    assert (tmp_path / "runs").read_text() == "run\n"
    assert wrong_jars(jars.place(tmp_path / "cache"), jars.locked()) == []
