"""What a job says of its failure becomes an error of the class that it names."""

import json

import pytest

from tidegate.model.errors import BatchFailedError, RecordsFailedError, UnavailableError
from tidegate.spark.output import JobOutput

SAID = {"cause": "records", "error": "ValueError: no rate for XYZ", "where": "/jobs/orders.py:14, in rate: raise"}


def failure(*lines: str) -> BatchFailedError | UnavailableError:
    output = JobOutput(lambda _: None)
    for line in lines:
        output.line(line)
    return output.failure("ended with status 1")


def told(**said: str | None) -> str:
    return "tidegate-failure: " + json.dumps(SAID | said)


def test_the_jobs_own_word_is_the_error_and_no_line_of_its_log() -> None:
    lines: list[str] = []
    output = JobOutput(lines.append)
    for line in ("Traceback", told()):
        output.line(line)
    error = output.failure("ended with status 1")
    assert lines == ["Traceback"]
    assert str(error) == ("the Spark job failed: ValueError: no rate for XYZ\n  at /jobs/orders.py:14, in rate: raise")


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        ("records", RecordsFailedError),
        ("unreachable", UnavailableError),
        ("system", BatchFailedError),
        ("news", BatchFailedError),
    ],
)
def test_the_cause_is_the_class(cause: str, kind: type[Exception]) -> None:
    assert type(failure(told(cause=cause, where=None))) is kind


@pytest.mark.parametrize(
    "line", ["tidegate-failure: {", "tidegate-failure: 7", 'tidegate-failure: {"cause": "records"}']
)
def test_a_job_that_says_nothing_usable_is_told_by_its_last_lines_and_blames_no_records(line: str) -> None:
    error = failure(*(f"line {number}" for number in range(30)), line)
    assert type(error) is BatchFailedError
    assert str(error).startswith("the Spark job ended with status 1: line 29\nits last lines:\nline 5\n")


def test_of_a_stack_trace_its_last_exception_is_told() -> None:
    frames = ["\tat org.apache.spark.deploy.SparkSubmit$$anon$2.doSubmit(SparkSubmit.scala:1187)"] * 40
    cause = "Caused by: java.net.URISyntaxException: ['/a.jar']"
    first = str(failure("Exception in thread main: wrapped", *frames, cause, *frames, "\t... 7 more", ""))
    assert first.partition("\n")[0] == f"the Spark job ended with status 1: {cause}"


def test_a_job_that_printed_nothing_says_that_and_a_long_last_line_is_cut() -> None:
    assert str(failure()) == "the Spark job ended with status 1: it printed nothing"
    first = str(failure("x" * 9_000, "  ")).partition("\n")[0]
    assert first == "the Spark job ended with status 1: " + "x" * 500
