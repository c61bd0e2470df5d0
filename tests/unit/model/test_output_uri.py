"""What the URI of an output says, and that nothing of it is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.errors import WrongDefinitionError
from tidegate.model.output_uri import (
    DeltaTable,
    IcebergTable,
    Output,
    ParquetFolder,
    batch_place,
    connections_of,
    has_folders,
    is_on_object_store,
    is_table,
    parse_output,
    without_connection,
)

WORDS = st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=6)
CONNECTIONS = st.none() | st.from_regex(r"[\w.-]{1,8}", fullmatch=True)
PATHS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20).map(lambda text: f"/{text}")
STORES = st.builds(
    lambda scheme, connection, bucket, key: f"{scheme}://{f'{connection}@' if connection else ''}{bucket}{key}",
    st.sampled_from(["s3", "gs", "abfs", "abfss"]),
    CONNECTIONS,
    st.from_regex(r"[a-z0-9-]{1,8}", fullmatch=True),
    st.just("") | PATHS,
)
FOLDERS = st.builds("file://{}".format, PATHS) | st.builds("hdfs://name:8020{}".format, PATHS) | STORES
OUTPUTS: st.SearchStrategy[Output] = st.one_of(
    st.builds(ParquetFolder, FOLDERS),
    st.builds(DeltaTable, FOLDERS),
    st.builds(IcebergTable, WORDS, st.lists(WORDS, min_size=1, max_size=3).map(tuple), WORDS),
)


@given(OUTPUTS)
def test_an_output_is_what_its_uri_says(output: Output) -> None:
    assert parse_output(str(output)) == output
    assert str(parse_output(str(output))) == str(output)


@given(STORES)
def test_a_connection_is_told_and_left_out(uri: str) -> None:
    assert is_on_object_store(uri)
    shown = without_connection(uri)
    assert connections_of(shown) == ()
    scheme, _, rest = shown.partition("://")
    (connection,) = connections_of(uri) or ("",)
    assert uri == (f"{scheme}://{connection}@{rest}" if connection else shown)


@pytest.mark.parametrize(
    ("uri", "public"),
    [
        ("file:///lake/a@b", "file:///lake/a@b"),
        ("hdfs://user@name:8020/lake", "hdfs://user@name:8020/lake"),
        ("delta+file:///lake/flights", "file:///lake/flights"),
        ("s3://lake/flights", "s3://lake/flights"),
        ("s3://minio@lake/fli@ghts", "s3://lake/fli@ghts"),
        ("delta+s3://minio@lake", "s3://lake"),
        ("abfs://azure@container/a", "abfs://container/a"),
        ("abfss://c@account.dfs.core.windows.net/a", "abfss://c@account.dfs.core.windows.net/a"),
        ("iceberg://lake/flights/departures", "iceberg://lake/flights/departures"),
    ],
)
def test_what_others_see_of_an_output(uri: str, public: str) -> None:
    assert parse_output(uri).public_uri == public


@pytest.mark.parametrize(
    ("uri", "table", "folders"),
    [
        ("file:///lake", False, True),
        ("hdfs://name/lake", False, True),
        ("s3://lake", False, False),
        ("delta+file:///lake", True, False),
        ("delta+s3://c@lake/a", True, False),
        ("iceberg://lake/a/b", True, False),
    ],
)
def test_which_outputs_have_a_folder_for_each_batch(uri: str, table: bool, folders: bool) -> None:
    assert is_table(uri) is table
    assert has_folders(uri) is folders
    assert batch_place(uri, "b1") == (f"{uri}/batch_id=b1" if folders else uri)


def test_a_namespace_may_have_several_parts() -> None:
    found = parse_output("iceberg://lake/europe/air/departures")
    assert found == IcebergTable("lake", ("europe", "air"), "departures")
    assert found.identifier == ("europe", "air", "departures")


@pytest.mark.parametrize(
    "uri", ["iceberg://", "iceberg://lake", "iceberg://lake/a", "iceberg://l/a//b", "iceberg://l/a.b/c"]
)
def test_a_table_without_catalog_namespace_and_name_is_refused(uri: str) -> None:
    with pytest.raises(WrongDefinitionError, match=r"write catalog\.namespace\.table"):
        parse_output(uri)
