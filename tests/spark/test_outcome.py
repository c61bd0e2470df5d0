"""tidegate_spark.outcome: what a transform may return, and what it is told otherwise."""

import pytest
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)

from tidegate_spark.outcome import LANDING_SCHEMA, LARGEST_STATE, REJECTED_SCHEMA, Outcome, TransformError, as_outcome

pytestmark = pytest.mark.spark


@pytest.fixture
def records(spark):
    return spark.createDataFrame([], LANDING_SCHEMA)


def test_a_dataframe_is_an_outcome_without_rejected_or_filtered_records(records):
    assert as_outcome(records, "m:f") == Outcome(rows=records)


def test_of_acknowledged_records_the_place_counts(records):
    outcome = as_outcome(Outcome(rows=records, acks=records), "m:f")

    assert outcome.acks is not None
    assert outcome.acks.columns == ["topic", "partition", "offset"]


def test_a_state_may_have_a_mebibyte(records):
    state = "é" * (LARGEST_STATE // 2 - 1)

    assert as_outcome(Outcome(rows=records, state=state), "m:f").state == state
    with pytest.raises(TransformError, match=f"m:f returned a state of {LARGEST_STATE + 1} bytes"):
        as_outcome(Outcome(rows=records, state=state + "x"), "m:f")


def chained(levels: int) -> list[object]:
    """A list in a list, and so on."""
    chain: list[object] = []
    for _ in range(levels):
        chain = [chain]
    return chain


def test_rejected_records_need_the_landing_columns_and_a_reason(records):
    outcome = Outcome(rows=records, rejected=records.selectExpr("*", "'no' AS reason"))

    assert as_outcome(outcome, "m:f") is outcome


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (lambda _: None, "m:f returned NoneType; return a Spark DataFrame, or an Outcome"),
        (lambda r: (r, r), "m:f returned tuple"),
        (lambda r: r.toPandas(), "m:f returned pandas.DataFrame; return a Spark DataFrame"),
        (lambda _: Outcome(rows=[1]), "m:f returned list as rows"),
        (lambda r: Outcome(rows=r, rejected=[]), "m:f returned list as rejected"),
        (lambda r: Outcome(rows=r, rejected=r), "rejected records lack reason string; give the landing columns"),
        (lambda r: Outcome(rows=r, rejected=r.selectExpr("* EXCEPT (headers)", "1 AS reason")), "lack headers"),
        (
            lambda r: Outcome(
                rows=r,
                rejected=r.selectExpr("* EXCEPT (value)", "'v' AS value", "'no' AS reason"),
            ),
            "lack value binary",
        ),
        (lambda r: Outcome(rows=r, filtered=-1), "returned -1 as filtered"),
        (lambda r: Outcome(rows=r, filtered=True), "returned True as filtered"),
        (lambda r: Outcome(rows=r, filtered="2"), "returned '2' as filtered"),
        (lambda r: Outcome(rows=r, acks=[1]), "m:f acknowledged list; give a Spark DataFrame"),
        (lambda r: Outcome(rows=r, acks=r.drop("topic")), "acknowledged records lack topic string"),
        (lambda r: Outcome(rows=r, state={1}), "state that isn't JSON: Object of type set"),
        (lambda r: Outcome(rows=r, state={"a": [r]}), "state that isn't JSON: Object of type DataFrame"),
        (lambda r: Outcome(rows=r, state=float("nan")), "state that isn't JSON: Out of range"),
        (lambda r: Outcome(rows=r, state="\ud800"), "state that isn't JSON: .* surrogates"),
        (lambda r: Outcome(rows=r, state=chained(100_000)), "state that isn't JSON: maximum recursion"),
        (lambda r: Outcome(rows=r, state={1: 2}), "state that JSON changes; use lists .* texts as the keys"),
        (lambda r: Outcome(rows=r, state=[(1, 2)]), "state that JSON changes"),
    ],
)
def test_anything_else_is_an_error_that_names_the_transform(records, returned, told):
    with pytest.raises(TransformError, match=told) as error:
        as_outcome(returned(records), "m:f")
    assert str(error.value).startswith("m:f")


def test_rejected_records_of_other_types_that_say_the_same_are_taken_as_they_are_landed(records):
    other = records.selectExpr(
        "* EXCEPT (partition, headers)", "CAST(partition AS bigint) AS partition", "NULL AS headers"
    )
    rejected = other.withColumn("reason", F.lit("no").cast("varchar(9)"))

    outcome = as_outcome(Outcome(rows=records, rejected=rejected), "m:f")

    assert outcome.rejected is not None
    found = {field.name: field.dataType.simpleString() for field in outcome.rejected.schema}
    assert found == {field.name: field.dataType.simpleString() for field in REJECTED_SCHEMA}
