import pytest

from tidegate.model.records import headline


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("no rate for XYZ", "no rate for XYZ"),
        ("\n  no rate \nTraceback", "no rate"),
        ("File '/home/ada/jobs/orders.py', line 3", "File 'orders.py', line 3"),
        ("file:///srv/lake/_staging/part-0.parquet is gone", "part-0.parquet is gone"),
        ("hdfs://nn:9000/lake/orders is full", "hdfs://nn:9000/lake/orders is full"),
        ("http://registry:8081/subjects/x isn't there", "http://registry:8081/subjects/x isn't there"),
        ("orders/0/17 and 1/2", "orders/0/17 and 1/2"),
        ("", ""),
    ],
)
def test_the_first_line_without_the_folders_of_this_machine(text: str, line: str) -> None:
    assert headline(text) == line
