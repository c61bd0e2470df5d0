"""A task that ends by a signal which chaos did not send: an accident, or a known fault of librdkafka's."""

import signal
from pathlib import Path

import pytest

from tidegate_local.chaos.kinds import KINDS
from tidegate_local.chaos.runners import Child, start_fork_server
from tidegate_local.chaos.tally import ABORTED, Tally
from tidegate_local.chaos.tasks import Place, Task

ASSERTION = "python: rdkafka_queue.h:1052: rd_kafka_enq_once_del_source_return: Assertion `eonce->refcnt > 0' failed.\n"


@pytest.mark.parametrize(("logged", "error", "unexpected"), [(ASSERTION, ABORTED, 0), ("", "Died", 1)])
def test_only_what_is_known_of_librdkafka_is_expected(logged: str, error: str, unexpected: int, tmp_path: Path) -> None:
    start_fork_server()
    log = tmp_path / "runner.log"
    log.write_text(logged, encoding="utf-8")
    waits = Place(tmp_path, "", "", kind=KINDS["renamed"])  # for a definition that nobody writes
    child = Child(Task(waits, log))
    child.send(signal.SIGABRT)
    said = child.said()

    assert said is not None
    assert said.error == error
    tally = Tally()
    tally.failed(error, said.message, is_ours=said.is_ours)
    assert len(tally.unexpected) == unexpected
