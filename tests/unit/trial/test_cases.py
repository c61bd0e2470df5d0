"""Cases in YAML: what they may say, what is said of what they may not, and when a delivery is what they expect."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from definition_files import LEAST

from tidegate.config.reading import DefinitionError
from tidegate.config.settings import Settings
from tidegate.model.errors import WrongDefinitionError
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Failure, Rejected
from tidegate.ports import Connection
from tidegate.testing.topics import Record
from tidegate.trial.cases import Case, Expected, read_cases
from tidegate.trial.comparing import differences, error_differences
from tidegate.trial.delivery import Delivered
from tidegate.trial.records import GivenRecord
from tidegate.trial.running import run_case

JUNK = Rejected(TopicPartition("orders", 0), 1, 0, b"a", b'{"no": 1}', (), Failure("tidegate.RejectedRecord", "no id"))


def read(folder: Path, text: str) -> list[Case]:
    file = folder / "orders.cases.yaml"
    file.write_text(dedent(text), encoding="utf-8")
    return read_cases(file)


def problems(folder: Path, text: str) -> list[tuple[int, str]]:
    with pytest.raises(DefinitionError) as raised:
        read(folder, text)
    return [(problem.line, problem.message) for problem in raised.value.problems]


def compared(expected: Expected, **made: Any) -> list[str]:
    return list(differences(expected, Delivered(**made)))


def test_a_record_is_what_kafka_would_have(tmp_path: Path) -> None:
    text = """\
        cases:
          - name: all kinds
            given:
              - {value: text, key: k, timestamp: "2026-01-01T00:00:00Z", headers: {h: v, none: null}}
              - {value: null, partition: 2, topic: other}
              - {json: {id: 7, country: NO}}
              - {base64: AAE=, key-base64: AAI=}
            expect: {filtered: 1}
    """
    (case,) = read(tmp_path, text)
    assert (case.subscription, case.line, case.expected) == ("orders", 2, Expected(filtered=1))
    assert case.given == [
        GivenRecord(Record(b"text", b"k", 1_767_225_600_000, (("h", b"v"), ("none", None)))),
        GivenRecord(Record(None), "other", 2),
        GivenRecord(Record(b'{"id": 7, "country": "NO"}')),
        GivenRecord(Record(b"\0\1", b"\0\2")),
    ]


def test_every_problem_is_told_with_its_line_and_the_nearest_name(tmp_path: Path) -> None:
    text = """\
        subscripton: orders
        cases:
          - name: one
            given:
              - {valu: 7}
              - value: 7
              - {value: a, json: {}}
              - {base64: "?"}
            expect:
              row: []
          - name: one
            given: a
            expect: {}
          - {name: two, given: [], expect: {rows: [1], rejected: [{reson: a}], filtered: -1}}
          - 7
    """
    assert problems(tmp_path, text) == [
        (1, "subscripton isn't known in the file (did you mean subscription?)"),
        (5, "valu isn't known in a record (did you mean value?)"),
        (6, "value must be text: put it in quotes, or write json"),
        (7, "a record has value and json: keep one"),
        (8, "base64 must be text in base64"),
        (10, "row isn't known in expect (did you mean rows?)"),
        (11, "a case is called one already, on line 3: give it another name"),
        (12, "given must be a list"),
        (13, "expect says nothing: give rows, rejected, filtered, error or several of them"),
        (14, "filtered must be a whole number from 0 to 2147483647"),
        (14, "a row must be a mapping of columns to values"),
        (14, "reson isn't known in a rejected record (did you mean reason?)"),
        (15, "a case must be a mapping with name, given, expect"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("cases: []", 1, "cases is empty: write a case, or remove the file"),
        ("cases: 7", 1, "cases must be a list"),
        ("other: 1", 1, "the file has no cases"),
        ("cases:\n- {name: a}", 2, "a case has no given and no expect"),
        ("cases: [", 1, "not valid YAML"),
        ("[]", 1, "the file must be a mapping"),
    ],
)
def test_what_is_no_file_of_cases(tmp_path: Path, text: str, line: int, said: str) -> None:
    found = problems(tmp_path, text)
    assert any(at == line and said in message for at, message in found), found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"valeu": "a"}, "a record has no valeu (did you mean value?)"),
        ({"value": 7}, "value must be text"),
        ({"key": "a"}, "a record has no value, json or base64"),
        ({"value": "a", "timestamp": datetime(2026, 1, 1)}, "timestamp must be a time with its zone"),  # noqa: DTZ001
    ],
)
def test_a_record_of_python_that_is_none_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongDefinitionError) as raised:
        GivenRecord.of(given)
    assert said in str(raised.value)


def test_a_record_of_python_may_have_bytes_and_a_datetime() -> None:
    given = {"value": b"\xff", "key": b"k", "headers": {"h": b"\0"}, "timestamp": datetime(2026, 1, 1, tzinfo=UTC)}
    assert GivenRecord.of(given).record == Record(b"\xff", b"k", 1_767_225_600_000, (("h", b"\0"),))


def test_rows_are_compared_by_the_columns_that_are_named_in_any_order() -> None:
    rows = [{"id": 1, "country": "NO"}, {"id": 1, "country": None}]
    assert compared(Expected(rows=[{"id": 1}, {"id": 1, "country": "NO"}]), rows=rows) == []
    assert compared(Expected(rows=[]), rows=[]) == []
    assert compared(Expected(), rows=rows, rejected=[JUNK], filtered=3) == []


def test_a_difference_is_what_is_missing_and_what_is_too_much() -> None:
    found = compared(Expected(rows=[{"id": 1, "contry": "SE"}]), rows=[{"id": 1, "country": "NO"}, {"id": 2}])
    assert found == [
        "rows: 1 expected (-), 2 found (+), 0 of them as expected",
        '  - {"id": 1, "contry": "SE"}',
        '  + {"id": 1}',
        '  + {"id": 2}',
        "  there is no column contry (did you mean country?)",
    ]


def test_a_difference_shows_a_map_as_a_mapping() -> None:
    found = compared(Expected(rows=[]), rows=[{"colours": {7: [b"red"], date(2026, 1, 1): []}}])
    assert found[1:] == ['  + {"colours": {"7": ["red"], "2026-01-01": []}}']


@pytest.mark.parametrize(
    ("expected", "found", "is_same"),
    [
        (7, 7, True),
        (7, 7.0, True),
        (True, 1, False),
        (1, True, False),
        (None, None, True),
        (None, 0, False),
        ("a", b"a", True),
        ("1.50", Decimal("1.5"), True),
        ("x", Decimal(1), False),
        ("2026-01-01", date(2026, 1, 1), True),
        ("2026-01-01T01:00:00+01:00", datetime(2026, 1, 1, tzinfo=UTC), True),
        ("2026-01-01", datetime(2026, 1, 1), True),  # noqa: DTZ001 (as Parquet has a timestamp without a zone)
        ("soon", datetime(2026, 1, 1, tzinfo=UTC), False),
        ({"a": [1]}, {"a": [1]}, True),
        ({"a": [1]}, {"a": [1], "b": 1}, False),
        ([1, 2], [1], False),
        ({"7": "1.5", "8": None}, {8: None, 7: Decimal("1.50")}, True),
        ([{"2026-01-01": 1}], [{date(2026, 1, 1): 1}], True),
        ({"7": 1}, {8: 1}, False),
    ],
)
def test_a_value_of_yaml_means_one_of_parquet(expected: object, found: object, *, is_same: bool) -> None:
    assert (compared(Expected(rows=[{"a": expected}]), rows=[{"a": found}]) == []) is is_same


def test_rejected_records_are_compared_by_what_is_named_and_a_part_of_the_reason() -> None:
    for expected in ({"reason": "id"}, {"json": {"no": 1}, "offset": 1}, {"value": '{"no": 1}', "key": "a"}):
        assert compared(Expected(rejected=[expected]), rejected=[JUNK]) == []
    first, *_ = compared(Expected(rejected=[{"reason": "number"}]), rejected=[JUNK])
    assert first == "rejected: 1 expected (-), 1 found (+), 0 of them as expected"
    assert compared(Expected(filtered=2), filtered=1) == ["filtered: 2 expected, 1 found"]


def test_a_difference_says_why_records_were_rejected_of_which_nothing_is_expected() -> None:
    rows = ["rows: 1 expected (-), 0 found (+), 0 of them as expected", '  - {"id": 1}']
    told = '  + {"value": "{\\"no\\": 1}", "reason": "no id"}'
    assert compared(Expected(rows=[{"id": 1}]), rejected=[JUNK] * 5) == [
        *rows,
        "rejected: 5 found (+), of which expect says nothing",
        *[told] * 3,
        "  and 2 more",
    ]
    assert compared(Expected(rows=[{"id": 1}], rejected=[{"reason": "id"}]), rejected=[JUNK]) == rows


def test_an_error_is_expected_by_a_part_of_it() -> None:
    failed = WrongDefinitionError("no rate for XYZ")
    assert list(error_differences(Expected(error="rate for"), failed)) == []
    assert list(error_differences(Expected(error="number"), failed)) == [
        "error: expected 'number', found no rate for XYZ"
    ]
    assert list(error_differences(Expected(rows=[]), failed)) == ["error: no rate for XYZ"]
    assert compared(Expected(error="rate")) == ["error: expected 'rate', and the delivery succeeded"]


def test_an_error_that_nobody_expected_is_the_result_of_its_case_alone(tmp_path: Path) -> None:
    (tmp_path / "include/subscriptions").mkdir(parents=True)
    (tmp_path / "include/subscriptions/orders.yaml").write_text(LEAST)
    nowhere = GivenRecord(Record(b"a"), partition=-1)  # as no file can say
    case = Case("broken", "orders", [nowhere], Expected(rows=[]), tmp_path / "orders.cases.yaml", 2)
    spark = Connection("spark", "spark", "local[1]", None, None, None, {})

    result = run_case(case, Settings.from_environment({"TIDEGATE_HOME": str(tmp_path)}), spark, tmp_path / "trial")

    (told,) = result.differences
    assert told.startswith("error: KeyError: ")
    assert "\n  at " in told
