"""What is read, listed and written without Spark on one machine is what Spark reads, lists and writes."""

from pathlib import Path

import pytest

from tidegate_spark import small_files
from tidegate_spark.small_files import files_in, texts_at, write_line

pytestmark = pytest.mark.spark


@pytest.fixture(params=[True, False], ids=["here", "elsewhere"])
def is_here(request, monkeypatch) -> bool:
    monkeypatch.setattr(small_files, "_is_here", lambda _: request.param)
    return request.param


@pytest.mark.usefixtures("is_here")
def test_what_spark_does_not_see_is_not_listed(spark, tmp_path: Path):
    seen = ["a", "b=_c/d", "_e=f/g", "h i%20/j", "k/l/m", "n.parquet"]
    for name in (*seen, "_o", ".p", "_q/r", ".s/t", "k/_u/v", "k/.w", "x._COPYING_"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)

    found = {path.removeprefix("file:"): size for path, size in files_in(spark, f"file://{tmp_path}")}

    assert found == {f"{tmp_path}/{name}": len(name) for name in seen}


def test_a_line_is_a_folder_of_one_part_and_a_second_one_is_an_error(spark, tmp_path: Path, is_here: bool):
    write_line(spark, f"file://{tmp_path}", "_result", '{"ä": 1}')

    assert [path.name for path in tmp_path.iterdir()] == ["_result"]
    (part,) = (tmp_path / "_result").glob("part-*")
    assert part.read_text() == '{"ä": 1}\n'
    assert texts_at(spark, f"file://{part}") == ['{"ä": 1}\n']
    with pytest.raises(OSError if is_here else Exception, match=r"(?i)exists"):
        write_line(spark, f"file://{tmp_path}", "_result", "another")
    assert part.read_text() == '{"ä": 1}\n'


@pytest.mark.parametrize(
    ("host", "by_spark"), [("spark", True), ("10.127.0.1", True), ("127.0.0.1", False), ("localhost", False)]
)
def test_files_beside_a_spark_on_another_machine_are_listed_by_it(spark, tmp_path: Path, monkeypatch, host, by_spark):
    monkeypatch.setattr(type(spark.client), "host", property(lambda _: host))
    (tmp_path / "a").write_text("a")

    ((path, _),) = files_in(spark, f"file://{tmp_path}")

    assert path == (f"file:{tmp_path}/a" if by_spark else f"{tmp_path}/a")
