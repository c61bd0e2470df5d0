"""The whole output of a delivery's job, in a file that messages name."""

from pathlib import Path

from ledger_batches import plan

from tidegate.model.batch import Delivery
from tidegate.model.manifest import Manifest
from tidegate.spark.logs import FileJobLogs, log_path

MANIFEST = Manifest(plan(), Delivery(1, "token"), None, "strict", "file:///lake/flights/_staging/b1")


def test_a_log_is_where_its_lines_are_and_nowhere_before_the_first(tmp_path: Path) -> None:
    with FileJobLogs(tmp_path).open(MANIFEST) as job_log:
        assert job_log.where == "", "an endpoint's deliveries print nothing"
        job_log.line("one")
        job_log.line("two")
        assert job_log.where == str(log_path(tmp_path, plan(), 1))
    assert Path(job_log.where).read_text() == "one\ntwo\n"


def test_a_disk_that_is_full_is_said_once_and_ends_no_delivery(tmp_path: Path) -> None:
    file = log_path(tmp_path, plan(), 1)
    file.parent.mkdir()
    file.symlink_to("/dev/full")
    with FileJobLogs(tmp_path).open(MANIFEST) as job_log:
        for line in ("one", "two"):
            job_log.line(line)
    assert job_log.where.startswith(f"{file}, as far as it could be written (")
    assert job_log.where.count("as far as") == 1
