"""Java is found or refused with one sentence that says what to do."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_local.errors import PreflightError
from tidegate_local.java import OLDEST_JAVA, find_java, major_version


def _java_that_prints(folder: Path, text: str, status: int = 0) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit {status}\n")
    program.chmod(0o755)
    return program


@given(major=st.integers(min_value=9, max_value=99), rest=st.sampled_from(["", ".0.15", "-ea", ".0.1+12"]))
def test_the_major_version_is_the_first_number(major: int, rest: str):
    assert major_version(f'openjdk version "{major}{rest}" 2025-04-15\nOpenJDK Runtime') == major


def test_java_8_calls_itself_1_8():
    assert major_version('java version "1.8.0_292"') == 8


def test_no_version_is_none():
    assert major_version("Error: could not open libjvm") is None


def test_java_on_the_path_is_found(tmp_path: Path):
    program = _java_that_prints(tmp_path, 'openjdk version "21.0.2"')
    found = find_java({"PATH": f"{program.parent}:/usr/bin:/bin"})
    assert (found.program, found.home, found.version) == (program, tmp_path, 21)


def test_java_home_goes_before_the_path(tmp_path: Path):
    other = _java_that_prints(tmp_path / "other", 'openjdk version "21"')
    _java_that_prints(tmp_path / "home", 'openjdk version "17"')
    found = find_java({"PATH": f"{other.parent}:/usr/bin:/bin", "JAVA_HOME": str(tmp_path / "home")})
    assert found.version == 17


def test_an_old_java_is_refused_naming_both_versions(tmp_path: Path):
    program = _java_that_prints(tmp_path, 'openjdk version "11.0.2"')
    with pytest.raises(PreflightError, match=f"version 11, too old: install Java {OLDEST_JAVA} or newer"):
        find_java({"PATH": f"{program.parent}:/usr/bin:/bin"})


def test_a_missing_java_says_what_to_install(tmp_path: Path):
    with pytest.raises(PreflightError, match=f"not found: install Java {OLDEST_JAVA}"):
        find_java({"PATH": str(tmp_path)})


def test_a_java_home_without_java_is_named(tmp_path: Path):
    with pytest.raises(PreflightError, match=f"JAVA_HOME is {tmp_path}, where there is no bin/java"):
        find_java({"PATH": "/usr/bin:/bin", "JAVA_HOME": str(tmp_path)})


def test_a_java_that_does_not_run_is_named(tmp_path: Path):
    program = _java_that_prints(tmp_path, "broken", status=1)
    with pytest.raises(PreflightError, match=f"Java at {program} doesn't run"):
        find_java({"PATH": f"{program.parent}:/usr/bin:/bin"})
