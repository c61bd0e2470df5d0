"""Transforms, looked at and imported; whatever a module does when it is imported."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from checkout import PROJECT

from tidegate.config import importing
from tidegate.config.transforms import CALLS, TransformFiles, import_complaints

Write = Callable[[str, str], None]
FINE = "def rows(batch):\n    return batch\n"
ENDED = "ended its process, or took longer than"


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def write(jobs: Path) -> Write:
    def written(name: str, text: str) -> None:
        path = jobs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return written


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): ...",
        "async def f(x): ...",
        "class f: ...",
        "f = print",
        "f: object = print",
        "e, f = print, print",
        "import print as f",
        "from other import f",
        "from other import *",
        "def __getattr__(name): ...",
        "if True:\n    def f(x): ...",
        "try:\n    from fast import f\nexcept ImportError:\n    f = print",
        "with open('x') as f: ...",
    ],
)
def test_a_look_finds_whatever_gives_a_module_a_name(jobs, write, text):
    write("m.py", text)
    assert TransformFiles(jobs).wrong("m:f") is None


@pytest.mark.parametrize("text", ["", "def g(x):\n    def f(): ...", "class G:\n    f = 1", "# f", "print('f')"])
def test_a_look_finds_that_a_name_is_missing(jobs, write, text):
    write("m.py", text)
    assert "has no function f" in (TransformFiles(jobs).wrong("m:f") or "")


def test_a_package_is_a_module_too(jobs, write):
    write("p/__init__.py", FINE)
    assert TransformFiles(jobs).wrong("p:rows") is None
    assert import_complaints(["p:rows"], jobs) == {}


def test_a_file_that_is_not_python_is_told_with_its_line(jobs, write):
    write("m.py", "x = 1\ndef f(:\n")
    assert f"{jobs}/m.py:2 isn't Python" in (TransformFiles(jobs).wrong("m:f") or "")


def test_the_projects_own_transforms_can_be_imported():
    assert import_complaints(["transforms.flights:departures"], PROJECT / "spark_jobs") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import pyarow\n" + FINE, "m.py:1: ModuleNotFoundError: No module named 'pyarow'"),
        ("x = 1\n1 / 0\n" + FINE, "m.py:2: ZeroDivisionError: division by zero"),
        ("def g():\n    raise ValueError('a\\nb')\ng()\n" + FINE, "m.py:2: b"),
        ("x = 1\ndef f(:\n", "m.py:2: SyntaxError"),
        ("import sys\nsys.exit(0)\n", "m.py:2: SystemExit: 0"),
        ("raise KeyboardInterrupt\n", "m.py:1: KeyboardInterrupt"),
        ("raise BaseException\n", "m.py:1: BaseException"),
        ("def row(batch): ...\n", "it has no function rows; did you mean row?"),
        ("rows = 5\n", "its rows isn't a function"),
        ("import os\nos._exit(0)\n", ENDED),
        ("import os\nos.closerange(3, 99)\nos._exit(3)\n", ENDED),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", ENDED),
    ],
)
def test_what_an_import_does_costs_no_other_transform(jobs, write, text, said):
    write("m.py", text)
    write("a.py", FINE)
    write("z.py", FINE)
    found = import_complaints(["a:rows", "m:rows", "z:rows", "z:rwos"], jobs)
    assert set(found) == {"m:rows", "z:rwos"}
    assert said in found["m:rows"]
    assert found["z:rwos"] == "it has no function rwos; did you mean rows?"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def rows(records): ...\n", None),
        ("def rows(records, batch): ...\n", None),
        ("def rows(records, threshold=3, *, more=4): ...\n", None),
        ("def rows(*records): ...\n", None),
        ("class A:\n    def __call__(self, records): ...\nrows = A()\n", None),
        ("rows = max\n", None),
        ("def rows(): ...\n", "it is called as f(records) or f(records, batch), and takes ()"),
        ("def rows(a, b, c): ...\n", "it is called as f(records) or f(records, batch), and takes (a, b, c)"),
        ("def rows(records, *, limit): ...\n", "and takes (records, *, limit)"),
    ],
)
def test_a_function_that_no_job_can_call_is_told_with_what_it_takes(jobs, write, text, said):
    write("m.py", text)
    found = import_complaints(["m:rows"], jobs, calls=CALLS)
    assert (said in found["m:rows"]) if said else (found == {})
    assert import_complaints(["m:rows"], jobs) == {}, "a callback may be called otherwise"


def test_an_async_function_is_told_whatever_it_takes(jobs, write):
    write("m.py", "import functools\nasync def rows(records): ...\nsome = functools.partial(rows, 1)\n")
    said = "it is async, and nobody awaits what it returns: write it with def"
    assert import_complaints(["m:rows", "m:some"], jobs) == {"m:rows": said, "m:some": said}


@pytest.mark.long
@pytest.mark.parametrize(
    "text", ["while True: pass\n", "import signal\nsignal.pause()\n", "import sys\nsys.stdin.read()\n"]
)
def test_a_module_that_hangs_is_ended(jobs, write, text):
    write("m.py", text + FINE)
    write("z.py", FINE)
    found = import_complaints(["m:rows", "z:rows"], jobs, longest=2.0)
    assert set(found) <= {"m:rows"}
    assert "stdin" in text or ENDED in found["m:rows"]


def test_what_a_module_prints_goes_nowhere(jobs, write, capfd):
    said = "print('printed' * 100_000)\nsys.stderr.write('complained')\nos.write(1, b'written')\n"
    write("m.py", f"import os, sys\n{said}{FINE}")
    assert import_complaints(["m:rows"], jobs) == {}
    shown = "".join(capfd.readouterr())  # clients of other tests' brokers may have said something meanwhile
    assert [word for word in ("printed", "complained", "written") if word in shown] == []


def test_what_a_module_starts_ends_with_the_check(jobs, write):
    write(
        "m.py",
        f"import os, sys, subprocess\nchild = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(jobs / 'pid')!r}, 'w').write(str(child.pid))\n" + FINE,
    )
    assert import_complaints(["m:rows"], jobs) == {}
    pid = int((jobs / "pid").read_text())
    deadline = time.monotonic() + 120
    while _runs(pid):
        assert time.monotonic() < deadline


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z" and os.kill(pid, 0) is None
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_all_are_imported_in_one_process(jobs, write):
    for name in "abc":
        write(f"{name}.py", f"import os\nopen({str(jobs / 'pids')!r}, 'a').write(f'{{os.getpid()}}\\n')\n" + FINE)
    assert import_complaints(["a:rows", "b:rows", "c:rows", "c:rows"], jobs) == {}
    pids = (jobs / "pids").read_text().split()
    assert len(pids) == 3
    assert len(set(pids)) == 1
    assert pids[0] != str(os.getpid())


def test_the_engines_own_modules_are_in_nobodys_way(jobs, write):
    write("properties.py", FINE)
    write("m.py", "import yaml_graph\n" + FINE)
    found = import_complaints(["properties:rows", "m:rows"], jobs)
    assert set(found) == {"m:rows"}
    assert "No module named 'yaml_graph'" in found["m:rows"]


def test_a_module_without_a_function_of_its_own_is_told_by_its_folder(jobs, write):
    write("loose/m.py", FINE)
    assert TransformFiles(jobs).wrong("loose:rows") == f"{jobs}/loose has no function rows"


def test_what_has_no_source_may_have_any_function(jobs):
    assert TransformFiles(jobs).wrong("math:sqrt") is None
    assert TransformFiles(jobs).wrong("sys:exit") is None


def test_a_module_that_is_written_after_the_first_look_is_seen_by_the_next(jobs, write):
    assert "there is no module m in" in (TransformFiles(jobs / "more").wrong("m:rows") or "")
    write("more/m.py", FINE)
    assert TransformFiles(jobs / "more").wrong("m:rows") is None


def test_an_error_of_an_installed_package_is_told_with_its_line(jobs, write, monkeypatch):
    write("installed_ones/__init__.py", "")
    write("installed_ones/m.py", "import json\njson.loads('{')\n" + FINE)
    monkeypatch.syspath_prepend(str(jobs))
    told = importing._wrong("installed_ones.m", ["rows"], [], folders=[])["rows"]
    assert told.startswith(f"{jobs}/installed_ones/m.py:2: json.decoder.JSONDecodeError")


def test_nothing_to_import_starts_nothing(jobs):
    assert import_complaints([], jobs / "nowhere") == {}


@pytest.mark.parametrize(
    "error",
    [
        "[NO_ACTIVE_OR_DEFAULT_SESSION] No active or default Spark session found.",
        "[SESSION_OR_CONTEXT_NOT_EXISTS] SparkContext or SparkSession should be created first.",
    ],
)
def test_a_module_that_needs_a_session_of_spark_at_its_import_is_left_to_the_job(
    jobs: Path, write: Write, error: str
) -> None:
    """As `@udf("string")` does where Spark Connect's client is all of PySpark that is installed."""
    write("orders.py", f"raise RuntimeError({error!r})")
    assert import_complaints(["orders:placed"], jobs) == {}
