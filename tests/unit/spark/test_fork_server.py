import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import ends

from tidegate.spark import fork_server
from tidegate.spark.child import Child, SpawnedChild, run_child
from tidegate.spark.environment import job_environment
from tidegate.spark.fork_server import ForkedChild, ForkServer, forked

pytestmark = pytest.mark.long

TOLD = """\
import json, locale, os, resource, signal, sys, threading
from pathlib import Path
status = dict(line.split(":\\t") for line in Path("/proc/self/status").read_text().splitlines() if ":\\t" in line)
print(json.dumps({
    "arguments": sys.argv, "variables": dict(os.environ), "folder": os.getcwd(), "first": sys.path[0],
    "path": sorted(set(sys.path)), "input": sys.stdin.read(), "leads": os.getpid() == os.getpgid(0) == os.getsid(0),
    "descriptors": len(os.listdir("/proc/self/fd")), "name": __name__, "file": __file__, "flags": list(sys.flags),
    "status": {name: status[name] for name in ("Umask", "SigIgn", "SigBlk", "Uid", "Gid", "Threads")},
    "handlers": [str(signal.getsignal(each)) for each in sorted(signal.valid_signals())],
    "limits": Path("/proc/self/limits").read_text(), "nice": os.nice(0), "locale": locale.getlocale(),
    "streams": [[each.encoding, each.errors, each.line_buffering, each.isatty()] for each in (sys.stdout, sys.stderr)],
    "main": Path(sys.modules["__main__"].__file__).name,
}))
"""
IMPORTED = "import os, sys; print('pyspark.sql.connect.session' in sys.modules, os.getppid())"
WAITS = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
DRAWS = "import random, uuid\nimport numpy\nprint(numpy.random.random(), random.random(), uuid.uuid4())"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    with pytest.MonkeyPatch.context() as its:
        its.setenv("PYTHONPATH", f"/of/the/server{os.pathsep}/of/neither")
        begun = ForkServer()
    monkeypatch.setattr(fork_server, "_server", begun)
    yield begun
    begun.end()
    assert begun.process.wait(120) is not None


def program(folder: Path, source: str) -> list[str]:
    file = folder / "program.py"
    file.write_text(source)
    return [sys.executable, str(file)]


def lines(command: list[str]) -> list[str]:
    said: list[str] = []
    run_child(command, {}, 60, said.append, lambda: None, start=forked)
    return said


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=["in the foreground", "in the background"])
def interrupts(request: pytest.FixtureRequest) -> Iterator[None]:
    """This process as a shell starts it: one in the background ignores what Ctrl-C sends."""
    before = signal.signal(signal.SIGINT, request.param)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts", "server")
def test_a_job_is_what_it_were_if_its_program_had_been_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = [*program(tmp_path, TOLD), "a", "b c"]
    environment = {**job_environment(os.environ), "PYTHONPATH": f"/of/the/job:{tmp_path}", "ONLY": "its own"}
    before = os.umask(0o027)
    try:
        as_fork, as_program = (told(start(command, environment)) for start in (forked, SpawnedChild))
    finally:
        os.umask(before)
    assert as_fork == as_program


@pytest.mark.usefixtures("server")
def test_a_job_has_the_pyspark_that_its_own_search_path_leads_to(tmp_path: Path) -> None:
    its = tmp_path / "its" / "pyspark" / "__init__.py"
    its.parent.mkdir(parents=True)
    its.write_text("")
    command, said = program(tmp_path, "import pyspark; print(pyspark.__file__)"), list[str]()
    run_child(command, {"PYTHONPATH": str(tmp_path / "its")}, 60, said.append, lambda: None, start=forked)
    assert said == [str(its)]


def told(child: Child) -> dict[str, object]:
    found: dict[str, object] = json.loads(child.lines.read())
    assert child.wait(120) == 0
    child.close()
    child.lines.close()
    return found


ENDS = {
    "returns": "print('done', end='')",
    "status": "import sys; print('done', end=''); sys.exit(3)",
    "true": "import sys; sys.exit(True)",
    "too large": "import sys; sys.exit(2**70)",
    "empty text": "import sys; sys.exit('')",
    "below zero": "import sys; sys.exit(-1)",
    "text": "import sys; sys.exit('what is wrong')",
    "error": "class WrongError(Exception): ...\nraise WrongError('what is wrong') from None",
    "interrupt": "raise KeyboardInterrupt",
    "exit functions": "import atexit; atexit.register(print, 'first'); atexit.register(print, 'second')",
    "failing exit function": "import atexit; atexit.register(lambda: 1 / 0); print('done')",
    "exit function of an import": "import logging.handlers, sys\n"
    "logging.root.addHandler(logging.handlers.MemoryHandler(9, target=logging.StreamHandler(sys.stdout)))\n"
    "logging.warning('kept')",
    "thread": "import threading; threading.Timer(0.1, print, ['later']).start()",
    "closed output": "import sys; sys.stdout.close()",
}


@pytest.mark.usefixtures("server")
def test_a_job_ends_as_it_did_if_its_program_had_been_started(tmp_path: Path) -> None:
    environment = job_environment(os.environ)
    for name, source in ENDS.items():
        command = program(tmp_path, source)
        as_fork, as_program = (end_of(start(command, environment)) for start in (forked, SpawnedChild))
        assert as_fork == as_program, name


def end_of(child: Child) -> tuple[int | None, list[str]]:
    """Its status, and the last of its lines: those before may be a traceback, which differs above the program."""
    said = child.lines.read().splitlines()
    status = child.wait(120)
    child.close()
    child.lines.close()
    return status, said[-1:]


@pytest.mark.usefixtures("server")
def test_a_job_is_gone_without_taking_apart_what_it_imported(tmp_path: Path) -> None:
    module = "class Kept:\n    def __del__(self): print('taken apart')\nkept = Kept()\n"
    (tmp_path / "imported_by_program.py").write_text(module)
    assert lines(program(tmp_path, "import imported_by_program; print('done')")) == ["done"]


def test_a_job_finds_pyspark_imported(server: ForkServer, tmp_path: Path) -> None:
    (said,) = lines(program(tmp_path, IMPORTED))
    imported, parent = said.split()
    assert imported == "True"
    assert int(parent) not in {os.getpid(), server.process.pid}


@pytest.mark.usefixtures("server")
def test_what_jobs_draw_differs(tmp_path: Path) -> None:
    drawn = [lines(program(tmp_path, DRAWS))[0].split() for _ in range(2)]
    assert not set(drawn[0]) & set(drawn[1])


@pytest.mark.usefixtures("server")
def test_a_program_that_was_changed_is_read_anew_and_so_is_what_it_imports(tmp_path: Path) -> None:
    for number in ("1", "22"):
        (tmp_path / "imported_by_program.py").write_text(f"NUMBER = {number}")
        assert lines(program(tmp_path, "import imported_by_program; print(imported_by_program.NUMBER)")) == [number]


def test_a_job_that_nobody_waits_for_any_more_is_terminated(server: ForkServer, tmp_path: Path) -> None:
    child = server.start(program(tmp_path, WAITS), {})
    pid = int(child.lines.readline())
    child.close()
    child.lines.close()
    assert ends(pid)


def test_a_job_outlives_the_server_and_the_next_one_is_a_process_of_its_own(server: ForkServer, tmp_path: Path) -> None:
    child = forked(program(tmp_path, WAITS), {})
    pid = int(child.lines.readline())
    server.process.kill()
    server.process.wait(120)
    assert isinstance(child, ForkedChild)
    assert child.wait(0) is None
    child.send_signal(signal.SIGTERM)
    assert child.wait(120) == -signal.SIGTERM
    assert ends(pid)
    child.close()
    child.lines.close()
    assert spawned(forked(program(tmp_path, "print(1)"), {})) == "1\n"


@pytest.mark.usefixtures("server")
def test_a_job_with_more_variables_than_a_message_takes_is_a_process_of_its_own(tmp_path: Path) -> None:
    variables = {f"V{number}": "x" * 100_000 for number in range(8)}
    assert spawned(forked(program(tmp_path, "import os; print(len(os.environ['V7']))"), variables)) == "100000\n"


def test_where_no_server_was_begun_a_job_is_a_process_of_its_own(tmp_path: Path) -> None:
    assert spawned(forked(program(tmp_path, "print(1)"), {})) == "1\n"


def spawned(child: Child) -> str:
    assert isinstance(child, SpawnedChild)
    line = child.lines.readline()
    assert child.wait(120) == 0
    child.close()
    child.lines.close()
    return line
