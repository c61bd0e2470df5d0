"""Running a Java source file of the tests, to hear what Kafka's or Spark's own classes say."""

import subprocess
from pathlib import Path

import pytest

from tidegate_local.java import find_java

FOLDER = Path(__file__).parents[1] / "unit" / "java"


def run_source(name: str, class_path: str, lines: str = "") -> str:
    """What the program prints, given these lines. Skips the test if the Java here brings no compiler."""
    java = find_java().program
    modules = subprocess.run([java, "--list-modules"], check=True, capture_output=True, text=True).stdout
    if "jdk.compiler" not in modules:
        pytest.skip("this Java can't run a source file")
    command = [java, "-cp", class_path, FOLDER / name]
    return subprocess.run(command, input=lines, check=True, capture_output=True, text=True).stdout
