"""Which outputs each format has, what is said of others, and the URI that comes of them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config import extras
from tidegate.config.check import Report, examine
from tidegate.config.output_rules import wrong_output
from tidegate.config.outputs import output_of, output_uri
from tidegate.config.property_types import Output
from tidegate.config.reading import Reading, read_text
from tidegate.config.settings import absolute_uri
from tidegate.model.output_uri import OutputFormat, is_table, parse_output
from tidegate.model.subscription import Problem, Subscription

HOME = Path("/home/of it")
CHARACTERS = st.characters(exclude_categories=["Cs", "Cc"])
WRITTEN = st.one_of(
    st.text(CHARACTERS, min_size=1, max_size=20),
    st.builds(
        "{}{}".format,
        st.sampled_from(["s3://", "S3://c@", "file:/", "FILE:///", "hdfs://n/", "~/"]),
        st.text(CHARACTERS),
    ),
    st.from_regex(r"[a-z0-9_-]{1,4}(\.[a-z0-9_-]{1,4}){2,4}", fullmatch=True),
)


def read(processing: dict[str, Any]) -> Reading:
    document = {"topics": ["flights"], "consumer": {"group.id": "g"}, "processing": processing}
    return read_text(Path("flights.yaml"), yaml.safe_dump(document))


def subscription(processing: dict[str, Any]) -> Subscription:
    found = read(processing)
    assert found.subscription is not None, found.problems
    return found.subscription


def problems(processing: dict[str, Any]) -> list[Problem]:
    return list(read(processing).problems)


@given(st.sampled_from(["parquet", "delta", "iceberg"]), WRITTEN)
def test_what_may_stand_comes_to_a_uri_that_says_the_same(format_: OutputFormat, written: str) -> None:
    if wrong_output(format_, written) is None:
        output = output_of(HOME, written, format_)
        assert output.format == format_
        assert parse_output(str(output)) == output
        assert is_table(str(output)) is (format_ != "parquet")


@given(WRITTEN)
def test_without_a_format_the_uri_is_what_it_always_was(written: str) -> None:
    if wrong_output("parquet", written) is None:
        assert str(output_of(HOME, written, "parquet")) == absolute_uri(HOME, written)


@pytest.mark.parametrize(
    ("processing", "uri"),
    [
        ({"output": "data/lake/flights"}, "file:///home/of it/data/lake/flights"),
        ({"output": "data/lake/flights/"}, "file:///home/of it/data/lake/flights"),
        ({"output": "hdfs://name:8020/lake/"}, "hdfs://name:8020/lake"),
        ({"output": "S3://minio@lake/flights/"}, "s3://minio@lake/flights"),
        (
            {"format": "delta", "output": "abfss://c@account.dfs.core.windows.net/a"},
            "delta+abfss://c@account.dfs.core.windows.net/a",
        ),
        ({"format": "delta", "output": "data/tables/flights/"}, "delta+file:///home/of it/data/tables/flights"),
        ({"format": "delta", "output": "a b/é"}, "delta+file:///home/of it/a b/é"),
        ({"format": "delta", "output": "~/x"}, f"delta+file://{Path.home()}/x"),
        (
            {"format": "delta", "output": "./lake.flights.departures"},
            "delta+file:///home/of it/lake.flights.departures",
        ),
        ({"format": "delta", "output": "s3://minio@lake/flights"}, "delta+s3://minio@lake/flights"),
        ({"format": "iceberg", "output": "lake.flights.departures"}, "iceberg://lake/flights/departures"),
        ({"format": "iceberg", "output": "lake.europe.air.departures"}, "iceberg://lake/europe/air/departures"),
    ],
)
def test_the_uri_of_an_output(processing: dict[str, Any], uri: str) -> None:
    found = subscription(processing)
    assert output_uri(HOME, found.processing) == uri
    assert found.processing.format == processing.get("format", "parquet")


@pytest.mark.parametrize(
    ("processing", "property_", "said"),
    [
        ({"format": "Delta", "output": "x"}, "format", "(did you mean delta?)"),
        ({"format": "hudi", "output": "x"}, "format", "must be parquet, delta or iceberg"),
        ({"format": "iceberg", "output": "lake.flights"}, "output", "lake.flights has 2 of at least 3 names"),
        ({"format": "iceberg", "output": "data/tables/flights"}, "output", "data/tables/flights is a place"),
        ({"format": "iceberg", "output": "s3://lake/flights"}, "output", "is a place; where the table's files lie"),
        ({"format": "iceberg", "output": "~"}, "output", "~ is a place"),
        ({"format": "iceberg", "output": "lake.a.b/"}, "output", "lake.a.b/ is a place"),
        ({"format": "iceberg", "output": "lake..b"}, "output", "has an empty name between its dots"),
        ({"format": "iceberg", "output": "lake.a. b"}, "output", "has the name ' b'"),
        ({"format": "delta", "output": "lake.flights.departures"}, "output", "or format: iceberg"),
        ({"format": "delta", "output": "hdfs://name/lake"}, "output", "can't be on hdfs"),
        ({"output": "gs://lake/flights"}, "output", "can't be on gs"),
        (
            {"output": "abfss://c@account.dfs.core.windows.net/a"},
            "output",
            "write s3://bucket/folder, or format: delta",
        ),
        ({"output": "s3a://lake/flights"}, "output", "write s3://bucket/key, which Spark is given as s3a://bucket/key"),
        ({"output": "delta+file:///lake"}, "output", "write processing.format: delta"),
        ({"output": "iceberg://lake/a/b"}, "output", "catalog.namespace.table, with processing.format: iceberg"),
        (
            {"output": "wasbs://c@a/lake"},
            "output",
            "can't be on wasbs: write a path, or a URI of file, hdfs, s3, gs, abfs",
        ),
        ({"output": "s3:/lake"}, "output", "must be s3://bucket/key or s3://connection@bucket/key"),
        ({"output": "s3://localhost:9000/lake"}, "output", "an endpoint's address belongs to the connection"),
        ({"output": "s3://@lake/a"}, "output", "must be s3://bucket/key"),
        ({"output": "s3://key:secret@lake/a"}, "output", "must not hold credentials"),
        ({"output": "s3://c@lake/a/../b"}, "output", "must not have .. between slashes: write the place without it"),
        ({"output": "s3://c@lake/.."}, "output", "must not have .. between slashes: write the place without it"),
        ({"output": "s3://lake/./b/"}, "output", "must not have . between slashes: write the place without it"),
        ({"output": "s3://lake//b"}, "output", "must not have // after the bucket: write one slash"),
        (
            {"format": "delta", "output": "gs://lake/a//b"},
            "output",
            "must not have // after the bucket: write one slash",
        ),
        (
            {"format": "delta", "output": "abfs://c@a.dfs.core.windows.net/a/.."},
            "output",
            "must not have .. between slashes: write the place without it",
        ),
        ({"output": " "}, "output", "must be a path, a URI, or catalog.namespace.table"),
        ({"format": "delta", "output": "s3://c@lake/x#y"}, "output", "can't have # in its URI: s3://c@lake/x#y"),
        ({"format": "delta", "output": "gs://lake/x#y"}, "output", "name another place, without #"),
        ({"format": "delta", "output": "s3://c@lake/a%20b"}, "output", "can't have % in its path: s3://c@lake/a%20b"),
        ({"format": "delta", "output": "data/a%20b"}, "output", "name another place, without %"),
        ({"format": "delta", "output": "s3://c@lake/x?y"}, "output", "must not contain ?"),
        ({"output": "x", "schema-evolution": "rescue"}, "schema-evolution", "is for tables, and processing.format is"),
        (
            {"output": "x", "format": "delta", "schema-evolution": "merge"},
            "schema-evolution",
            "must be fail, add-columns",
        ),
    ],
)
def test_what_is_said_of_a_wrong_output(processing: dict[str, Any], property_: str, said: str) -> None:
    (problem,) = problems(processing)
    assert problem.property == f"processing.{property_}"
    assert said in problem.message
    assert problem.severity == "error"
    assert "secret" not in str(problem).replace("s3://key:***@", "")


@pytest.mark.parametrize(
    "processing",
    [
        {"format": "delta", "output": "data/x#y"},
        {"format": "parquet", "output": "data/a%20b#y"},
        {"format": "parquet", "output": "s3://c@lake/a%20b#y"},
        {"format": "parquet", "output": "s3://c@lake/a..b/.c/"},
        {"format": "parquet", "output": "../a//./b"},
        {"format": "delta", "output": "file:///a/../b"},
    ],
)
def test_characters_that_mean_nothing_there_may_stand(processing: dict[str, Any]) -> None:
    assert problems(processing) == []


def test_a_folder_named_like_a_table_is_taken_with_a_warning() -> None:
    found = read({"output": "lake.flights.departures"})
    (warning,) = found.problems
    assert (warning.severity, warning.rule) == ("warning", "looks-like-a-table")
    assert "format: iceberg, else ./lake.flights.departures" in warning.message
    assert found.subscription is not None
    assert problems({"output": "./lake.flights.departures"}) == []


@pytest.mark.parametrize("evolution", ["fail", "add-columns", "rescue"])
def test_a_tables_schema_evolution(evolution: str) -> None:
    found = subscription({"format": "delta", "output": "x", "schema-evolution": evolution})
    assert found.processing.schema_evolution == evolution
    assert subscription({"format": "delta", "output": "x"}).processing.schema_evolution == "fail"


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_over_http_there_are_only_parquet_files(format_: str) -> None:
    http = {"kind": "http", "uri": "https://example.org/hook", "output": "lake.a.b" if format_ == "iceberg" else "out"}
    (problem,) = problems({**http, "format": format_})
    assert f"processing.format {format_} is for processing.kind spark" in problem.message
    assert subscription({**http, "output": "out", "format": "parquet"}).processing.format == "parquet"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An environment without any extra."""
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    extras.missing.cache_clear()
    yield
    extras.missing.cache_clear()


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("processing", "needs", "extra"),
    [
        ({"format": "delta", "output": "x"}, "processing.format delta needs deltalake", "delta"),
        ({"format": "iceberg", "output": "a.b.c"}, "processing.format iceberg needs pyiceberg", "iceberg"),
        ({"output": "s3://b/x"}, "processing.output s3://b/x needs obstore", "object-stores"),
    ],
)
def test_a_format_names_its_package_and_the_command(processing: dict[str, Any], needs: str, extra: str) -> None:
    (problem,) = problems(processing)
    assert problem.message == f"{needs}, which isn't installed here: pip install 'tidegate[{extra}]'"


@pytest.mark.usefixtures("bare")
def test_parquet_on_a_file_system_needs_no_package() -> None:
    assert problems({"output": "x"}) == problems({"output": "hdfs://name/x"}) == []


@pytest.fixture
def define(tmp_path: Path) -> Callable[..., None]:
    def write(name: str, **processing: str) -> None:
        document = {"topics": ["flights"], "consumer": {"group.id": name}, "processing": processing}
        (tmp_path / "definitions").mkdir(exist_ok=True)
        (tmp_path / f"definitions/{name}.yaml").write_text(yaml.safe_dump(document))

    return write


def checked(home: Path) -> Report:
    return examine([home / "definitions"], home)


def told(report: Report) -> list[tuple[str, str]]:
    return [(Path(each.file).stem, each.rule) for each in report.problems]


@pytest.mark.parametrize("table", [{"format": "delta", "output": "t"}, {"format": "iceberg", "output": "lake.a.t"}])
def test_a_table_may_be_the_output_of_several(
    tmp_path: Path, define: Callable[..., None], table: dict[str, str]
) -> None:
    define("a", **table)
    define("b", **table)
    report = checked(tmp_path)
    assert {each.rule for each in report.problems} == {"same-records"}, "both read one topic"
    assert len(report.usable) == 2


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ({"output": "s3://c@b/x"}, {"output": "s3://c@b/x/"}, ["a", "b"]),
        ({"output": "s3://c@b/x"}, {"output": "s3://c@b/x/y"}, ["b"]),
        ({"output": "x"}, {"output": "x", "format": "delta"}, ["a", "b"]),
        ({"output": "x"}, {"output": "x/y", "format": "delta"}, ["b"]),
        ({"output": "x", "format": "delta"}, {"output": "x/y"}, ["b"]),
        ({"output": "x", "format": "delta"}, {"output": "x/y", "format": "delta"}, ["b"]),
        ({"output": "l.a.b", "format": "iceberg"}, {"output": "l.a.b.c", "format": "iceberg"}, []),
        ({"output": "x", "format": "delta"}, {"output": "xy", "format": "delta"}, []),
    ],
)
def test_folders_are_not_shared(
    tmp_path: Path, define: Callable[..., None], one: dict[str, str], other: dict[str, str], clash: list[str]
) -> None:
    define("a", **one)
    define("b", **other)
    assert told(checked(tmp_path)) == [(name, "shared-output") for name in clash]


def test_a_wrong_output_is_told_once_and_the_others_are_compared(tmp_path: Path, define: Callable[..., None]) -> None:
    define("a", output="x", format="iceberg")
    define("b", output="y")
    define("c", output="y")
    assert told(checked(tmp_path)) == [("a", "refused"), ("b", "shared-output"), ("c", "shared-output")]


@pytest.mark.parametrize("output", ["x", "x/below/it"])
def test_a_file_where_the_folder_would_be_is_refused(tmp_path: Path, define: Callable[..., None], output: str) -> None:
    (tmp_path / "x").touch()
    define("a", output=output)
    (problem,) = checked(tmp_path).problems
    assert problem.rule == "taken-output"
    assert f"can't be a folder: {tmp_path / 'x'} is a file" in problem.message


def test_parquet_over_a_delta_table_is_refused(tmp_path: Path, define: Callable[..., None]) -> None:
    (tmp_path / "x/_delta_log").mkdir(parents=True)
    define("a", output="x")
    (problem,) = checked(tmp_path).problems
    assert problem.rule == "taken-output"
    assert "has a Delta table (_delta_log) in it, and processing.format is parquet" in problem.message
    define("a", output="x", format="delta")
    assert checked(tmp_path).problems == ()


def test_a_delta_table_over_published_batches_is_refused(tmp_path: Path, define: Callable[..., None]) -> None:
    batch = tmp_path / "x/batch_id=b1"
    batch.mkdir(parents=True)
    define("a", output="x", format="delta")
    assert checked(tmp_path).problems == ()
    (batch / "_manifest.json").write_text("{}")
    (problem,) = checked(tmp_path).problems
    assert "has batches that Tidegate published as Parquet (batch_id=b1) in it" in problem.message
    define("a", output="x")
    assert checked(tmp_path).problems == ()


@pytest.mark.parametrize("format_", ["parquet", "delta"])
@pytest.mark.parametrize("written", ["part-0.parquet", "country=NO/part-0.parquet"])
def test_a_folder_in_which_another_job_has_written_parquet_is_refused_until_tidegate_has_published_there(
    tmp_path: Path, define: Callable[..., None], format_: str, written: str
) -> None:
    (tmp_path / "x/_staging").mkdir(parents=True)
    (tmp_path / "x/_SUCCESS").touch()
    define("a", output="x", format=format_)
    assert checked(tmp_path).problems == ()
    file = tmp_path / "x" / written
    file.parent.mkdir(exist_ok=True)
    file.touch()
    (problem,) = checked(tmp_path).problems
    assert problem.rule == "taken-output"
    assert f"has Parquet that Tidegate hasn't written ({written.partition('/')[0]}) in it" in problem.message
    define("a", output="x")
    batch = tmp_path / "x/batch_id=b1"
    batch.mkdir()
    (batch / "_manifest.json").write_text("{}")
    assert checked(tmp_path).problems == ()


@given(st.text(CHARACTERS, max_size=12))
def test_the_type_and_the_rules_raise_for_no_text(text: str) -> None:
    Output().validate(text)
    for format_ in get_args(OutputFormat):
        wrong_output(format_, text)
