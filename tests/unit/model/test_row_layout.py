import pytest

from tidegate.model.row_layout import AS_RETURNED, partition_values, row_layout


@pytest.mark.parametrize("output", ["file:///lake/flights", "hdfs://name:8020/lake/flights"])
@pytest.mark.parametrize("rescues", [False, True])
def test_folders_that_are_renamed_have_rows_as_they_were_returned(output: str, rescues: bool) -> None:
    assert row_layout(output, rescues=rescues) == AS_RETURNED


@pytest.mark.parametrize(
    "output",
    ["delta+file:///lake", "delta+s3://c@bucket/lake", "iceberg://lake/a/b", "s3://bucket/lake", "gs://b/lake"],
)
def test_rows_elsewhere_tell_their_batch_and_keep_their_columns(output: str) -> None:
    assert row_layout(output).to_json() == {
        "batch_id_column": "batch_id",
        "keeps_partition_columns": True,
        "rescued_data_column": None,
    }
    assert row_layout(output, rescues=True).rescued_data_column == "_rescued_data"


@pytest.mark.parametrize(
    ("folder", "value"),
    [
        ("by_carrier=AA", "AA"),
        ("by_carrier=__HIVE_DEFAULT_PARTITION__", None),
        ("by_carrier=%27", ""),
        ("by_carrier=%27%27", "'"),
        ("by_carrier=%27__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"),
        ("by_carrier=a%2Fb %25 k%3Dv æ—☃", "a/b % k=v æ—☃"),
        ("by_by_carrier=x=y", "x=y"),
    ],
)
def test_a_folders_name_tells_the_value(folder: str, value: str | None) -> None:
    assert partition_values(f"{folder}/part-0.parquet", ["carrier"]) == (("carrier", value),)


def test_folders_are_the_columns_in_order() -> None:
    assert partition_values("by_a=1/by_b=2/part-0.parquet", ["a", "b"]) == (("a", "1"), ("b", "2"))
    assert partition_values("part-0.parquet", []) == ()


@pytest.mark.parametrize("path", ["part-0.parquet", "by_a=1/by_b=2/part-0.parquet", "elsewhere/part-0.parquet"])
def test_a_path_without_a_folder_for_each_column_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"zip|folder"):
        partition_values(path, ["a"])
