import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Event
from time import monotonic

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.tasks import PYTHON_PATH
from tidegate.model.errors import RecordsFailedError
from tidegate.spark.submit import SubmitProcessor

DRIVER = [sys.executable, "-S", "-m", "chaos.driver"]
_PAUSE = Event()


def manifest(folder: Path) -> str:
    landed = folder / "landed.parquet"
    landed.write_bytes(b"as it landed")
    document = {
        "batch_id": "b1",
        "delivery": {"token": "t"},
        "records": 1,
        "state": {"seen": 41},
        "staging": f"file://{folder}/_staging/b1-t",
        "files": [{"uri": f"file://{landed}"}],
    }
    (folder / "manifest.json").write_text(json.dumps(document), encoding="utf-8")
    return f"file://{folder}/manifest.json"


def drive(folder: Path, *options: str, keeper: int | None = None) -> int:
    command = [*DRIVER, "--keeper", str(keeper or os.getpid()), *options, manifest(folder)]
    environment = os.environ | {"PYTHONPATH": PYTHON_PATH}
    return subprocess.run(command, env=environment, check=False, timeout=500).returncode


def copied(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.glob("_staging/b1-t/*/part-00000.parquet")]


def gone() -> int:
    ended = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    ended.wait()
    return ended.pid


def drivers(folder: Path) -> list[psutil.Process]:
    found = psutil.process_iter(["cmdline"])
    return [each for each in found if f"file://{folder}/manifest.json" in (each.info["cmdline"] or [])]


def test_it_copies_and_leaves_a_result(tmp_path: Path) -> None:
    assert drive(tmp_path) == 0
    assert copied(tmp_path) == [b"as it landed"]


def test_it_lays_out_the_rows_of_a_table(tmp_path: Path) -> None:
    handed = manifest(tmp_path)
    pq.write_table(pa.table({"offset": [7]}), tmp_path / "landed.parquet")
    path = Path(handed.removeprefix("file://"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"layout": {"batch_id_column": "batch_id"}}))
    command = [sys.executable, "-m", "chaos.driver", "--keeper", str(os.getpid()), "--table", handed]
    subprocess.run(command, env=os.environ | {"PYTHONPATH": PYTHON_PATH}, check=True, timeout=500)
    (file,) = tmp_path.glob("_staging/b1-t/*/part-00000.parquet")
    assert pq.read_table(file).to_pylist() == [{"offset": 7, "batch_id": "b1"}]


def test_one_whose_records_fail_says_so_and_copies_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    processor = SubmitProcessor((*DRIVER, "--keeper", str(os.getpid()), "--fail"), {"PYTHONPATH": PYTHON_PATH})

    with pytest.raises(RecordsFailedError, match="chaos wants it so"):
        processor.run(manifest(tmp_path), 60, said.append, lambda: None)

    assert copied(tmp_path) == []


def test_it_counts_on_in_the_state_that_it_is_handed(tmp_path: Path) -> None:
    assert drive(tmp_path, "--count") == 0
    (result,) = tmp_path.glob("_staging/b1-t/*/_result/part-00000.txt")
    assert json.loads(result.read_text())["state"] == {"seen": 42}


def test_one_that_lives_on_fails_at_once_and_copies_later(tmp_path: Path) -> None:
    assert drive(tmp_path, "--late", "0.5") == 1
    assert copied(tmp_path) == []
    deadline = monotonic() + 120
    while not copied(tmp_path) or drivers(tmp_path):
        assert monotonic() < deadline
        _PAUSE.wait(0.02)
    assert copied(tmp_path) == [b"as it landed"]


@pytest.mark.parametrize("options", [("--work", "60"), ("--late", "60")])
def test_it_ends_without_a_copy_when_nobody_keeps_it_any_more(options: tuple[str, ...], tmp_path: Path) -> None:
    assert drive(tmp_path, *options, keeper=gone()) == 1
    deadline = monotonic() + 30
    while drivers(tmp_path):
        assert monotonic() < deadline
        _PAUSE.wait(0.02)
    assert copied(tmp_path) == []
