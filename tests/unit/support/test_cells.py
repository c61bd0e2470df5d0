from itertools import combinations, product

from cells import cells
from documents import ROOT

WAYS = {"connect": "Spark Connect", "submit": "spark-submit"}


def test_each_value_of_a_column_meets_each_value_of_another():
    columns = [(cell.airflow, cell.spark, cell.engine) for cell in cells()]
    for one, other in combinations(range(3), 2):
        values = ({column[each] for column in columns} for each in (one, other))
        assert {(column[one], column[other]) for column in columns} == {*product(*values)}
    assert {cell.python for cell in cells()} == {"3.11", "3.12", "3.13"}


def test_the_page_about_installing_has_the_cells():
    page = (ROOT / "docs/install.md").read_text("utf-8")
    for cell in cells():
        assert f"- Airflow {cell.airflow}, Spark {cell.spark} by {WAYS[cell.engine]}, Python {cell.python}\n" in page


def test_what_pip_is_told_pins_airflow_and_spark_beside_what_goes_with_them():
    first = cells()[0]
    assert {"apache-airflow==3.2.0", "pyspark-client==4.0.0", "pydantic==2.13.3"} <= {*first.pinned}
