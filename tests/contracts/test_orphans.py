"""What late Spark jobs leave in a table's folder is told from what the table has, and from what it may have yet."""

from pathlib import Path

import pytest
from test_log_lake import Bench, generation_of, of

from tidegate.lake.orphans import Orphans
from tidegate.model.manifest import Manifest


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def comes_late(bench: Bench, manifest: Manifest) -> Manifest:
    """A sweep has removed the folder, and the job has made it again."""
    bench.lake.remove_staged(bench.output, [manifest.staging])
    (Path(manifest.staging.removeprefix("file://")) / "a9").mkdir(parents=True)
    return manifest


def orphans_of(bench: Bench, manifest: Manifest, *, published: bool = False) -> frozenset[str]:
    orphans = Orphans(bench.log)
    unnoted = orphans.unnoted(bench.output).get(manifest.batch.id, frozenset())
    return orphans.among(bench.output, of(manifest), unnoted, was_published=published)


def publish(bench: Bench, manifest: Manifest) -> Manifest:
    """Publish it, and sweep."""
    bench.lake.publish(manifest, "a1")
    bench.lake.remove_staged(bench.output, [manifest.staging])
    return manifest


def test_of_a_published_batch_what_other_deliveries_left(bench: Bench) -> None:
    late, won = comes_late(bench, bench.staged()), publish(bench, bench.staged())
    assert orphans_of(bench, won, published=True) == {late.staging}
    assert bench.rows() == 3


def test_so_it_is_where_the_table_s_folder_is_written_in_another_way(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, won = comes_late(bench, bench.staged()), publish(bench, bench.staged())
    monkeypatch.setattr(bench.log, "folder", lambda table: f"{table}/../table")
    (orphan,) = orphans_of(bench, won, published=True)
    assert orphan.rpartition("/")[2] == late.staging.rpartition("/")[2]


def test_of_a_batch_that_was_given_up_everything(bench: Bench) -> None:
    publish(bench, bench.staged(1))
    late, later = bench.staged(2), bench.staged(2)
    bench.lake.set_aside(bench.output, of(late))
    assert orphans_of(bench, late) == frozenset()
    assert {comes_late(bench, each).staging for each in (late, later)} == orphans_of(bench, late)


def test_of_a_batch_that_the_log_has_passed_everything(bench: Bench) -> None:
    late = comes_late(bench, bench.staged(1))
    publish(bench, bench.staged(2))
    assert orphans_of(bench, late) == {late.staging}


def test_what_is_staged_still_is_none(bench: Bench) -> None:
    staged = bench.staged(1)
    publish(bench, bench.staged(2))
    assert orphans_of(bench, staged) == frozenset()


def test_of_a_batch_that_the_log_has_not_come_to_nothing(bench: Bench) -> None:
    publish(bench, bench.staged(1))
    assert orphans_of(bench, comes_late(bench, bench.staged(2))) == frozenset()


def test_where_there_is_no_table_nothing(bench: Bench) -> None:
    assert Orphans(bench.log).unnoted(bench.output) == {}
    assert orphans_of(bench, comes_late(bench, bench.staged(1))) == frozenset()


def test_of_a_table_that_was_created_again_nothing_that_was_published_before(bench: Bench) -> None:
    late, won = comes_late(bench, bench.staged(1)), publish(bench, bench.staged(1))
    bench.log.tables.clear()
    publish(bench, bench.staged(2))
    assert {late.staging, won.staging} <= Orphans(bench.log).unnoted(bench.output)[won.batch.id]
    assert orphans_of(bench, won, published=True) == frozenset()


def test_of_a_table_that_was_taken_back_to_before_the_batch_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    comes_late(bench, bench.staged(1))
    won = publish(bench, bench.staged(1))
    monkeypatch.setattr(bench.log, "is_undone", lambda *_: True)
    assert orphans_of(bench, won, published=True) == frozenset()


def test_neither_what_a_generation_is_made_of_nor_what_it_replaced(bench: Bench) -> None:
    first = publish(bench, bench.staged(1))
    late = comes_late(bench, bench.staged(1))
    won = generation_of(bench, first, 2, rows=5)
    bench.lake.replace(won, "a1")
    assert orphans_of(bench, first, published=True) == {late.staging}
    assert bench.rows() == 5


def test_a_folder_that_somebody_else_made_is_none(bench: Bench) -> None:
    bench.lake.publish(bench.staged(1), "a1")
    for name in ("rewritten", "carrier=AA", "b00000000000000000001"):
        (Path(bench.output.removeprefix("file://")) / "data" / name).mkdir(parents=True)
    assert Orphans(bench.log).unnoted(bench.output) == {}
