"""What a lake promises whose batches are published by a table's log, whichever log that is."""

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tidegate.lake.log_entries import Entry, LogEntries
from tidegate.lake.log_lake import LogLake
from tidegate.lake.staged_files import StagedFiles
from tidegate.model.batch import Batch, Delivery
from tidegate.model.change_feed import MergeTarget
from tidegate.model.errors import LostDataError, RewrittenFilesError, StaleError
from tidegate.model.manifest import Manifest, Result, StagedFile
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.testing.table_log import MemoryTableLog

RACERS = 8
TRIES = 10


class Bench:
    """A table below a folder, and the hands of a Spark job on what is staged beside it."""

    def __init__(self, folder: Path) -> None:
        self.log = MemoryTableLog()
        self.output = f"file://{folder}/table"
        self.staged_files = StagedFiles()
        self.lake = LogLake(self.log, self.staged_files)

    def delivery(self, number: int = 1, incarnation: str = "inc") -> Manifest:
        """A delivery of a batch that has begun."""
        batch_id, token = f"b{number:020x}", uuid.uuid4().hex
        batch = Batch(
            id=batch_id,
            subscription="flights",
            group="g",
            receipt=Receipt(incarnation, None, number - 1),
            ranges=(Range("t", 0, 0, 10),),
            shares=((TopicPartition("t", 0),),),
            output=self.output,
            partition_by=(),
            records={TopicPartition("t", 0): 10},
            files=(),
        )
        staging = self.lake.staging_of(self.output, batch_id, token)
        manifest = Manifest(batch, Delivery(1, token), "m:f", "strict", staging)
        self.lake.prepare(manifest)
        return manifest

    def staged(self, number: int = 1, incarnation: str = "inc", rows: int = 3) -> Manifest:
        """A delivery whose attempt `a1` has been sealed."""
        manifest = self.delivery(number, incarnation)
        folder = Path(manifest.staging.removeprefix("file://")) / "a1"
        folder.mkdir(parents=True)
        files = []
        if rows:
            pq.write_table(pa.table({"n": list(range(rows))}), folder / "part-0.parquet")
            files = [StagedFile("part-0.parquet", (folder / "part-0.parquet").stat().st_size)]
        result = Result(manifest.batch.id, manifest.delivery.token, "a1", 10, 10 - rows, tuple(files), ())
        counts = self.staged_files.seal(manifest.staging, result)
        return replace(manifest, batch=replace(manifest.batch, seal=counts.seal, rows=counts.written))

    def rows(self) -> int:
        """What a reader of the table counts; each file is there."""
        files = [file for table in self.log.tables.values() for file in table.files]
        return sum(pq.read_metadata(file.uri.removeprefix("file://")).num_rows for file in files)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def of(manifest: Manifest) -> Receipt:
    return manifest.batch.next_receipt


def test_a_batch_is_published_once_with_what_its_manifest_says(bench: Bench) -> None:
    manifest = bench.staged()
    assert bench.lake.published(bench.output, of(manifest)) is None
    bench.lake.publish(manifest, "a1")
    published = bench.lake.published(bench.output, of(manifest))
    assert published is not None
    assert (published.batch_id, published.ranges, published.rows) == (manifest.batch.id, manifest.batch.ranges, 3)
    with pytest.raises(StaleError, match="come to this batch already"):
        bench.lake.publish(manifest, "a1")
    assert bench.rows() == 3


def test_of_two_deliveries_the_second_is_told_that_the_first_was_published(bench: Bench) -> None:
    first, second = bench.staged(), bench.staged(rows=2)
    bench.lake.publish(second, "a1")
    with pytest.raises(StaleError, match="come to this batch already"):
        bench.lake.publish(first, "a1")
    assert bench.rows() == 2


def test_what_was_set_aside_is_never_published_and_what_is_delivered_after_it_is(bench: Bench) -> None:
    slept = bench.staged()
    bench.lake.set_aside(bench.output, of(slept))
    with pytest.raises(StaleError, match="withdrawn"):
        bench.lake.publish(slept, "a1")
    assert not bench.staged_files.has_attempt(slept.staging, "a1")
    again = bench.staged(rows=2)
    bench.lake.publish(again, "a1")
    assert bench.rows() == 2


def test_so_it_is_once_there_is_a_table(bench: Bench) -> None:
    bench.lake.publish(bench.staged(1), "a1")
    slept = bench.staged(2)
    for _ in range(2):
        bench.lake.set_aside(bench.output, of(slept))
    again = bench.staged(2, rows=1)
    with pytest.raises(StaleError, match="withdrawn"):
        bench.lake.publish(slept, "a1")
    bench.lake.publish(again, "a1")
    assert bench.rows() == 4


def test_what_is_published_stays_so_whoever_sets_it_aside(bench: Bench) -> None:
    manifest = bench.staged()
    bench.lake.publish(manifest, "a1")
    bench.lake.set_aside(bench.output, of(manifest))
    assert bench.lake.published(bench.output, of(manifest)) is not None


def test_older_numbers_are_told_and_those_that_were_passed(bench: Bench) -> None:
    first, third = bench.staged(1), bench.staged(3)
    second = bench.staged(2)
    bench.lake.publish(first, "a1")
    bench.lake.publish(third, "a1")
    assert bench.lake.published(bench.output, of(first)) is not None
    assert bench.lake.published(bench.output, of(second)) is None
    passed = [bench.lake.is_passed(bench.output, of(each)) for each in (first, second, third)]
    assert passed == [False, True, False]
    with pytest.raises(StaleError, match="come to this batch already"):
        bench.lake.publish(second, "a1")


def test_a_batch_without_rows_is_published_where_there_is_no_table(bench: Bench) -> None:
    empty, next_one = bench.staged(1, rows=0), bench.staged(2)
    bench.lake.publish(empty, "a1")
    assert bench.lake.published(bench.output, of(empty)) is not None
    assert bench.log.tables == {}
    bench.lake.publish(next_one, "a1")
    assert [bench.lake.published(bench.output, of(each)) is not None for each in (empty, next_one)] == [True, True]
    assert not bench.lake.has_forgotten(bench.output, of(empty))


def test_a_table_that_was_dropped_has_forgotten_its_batches(bench: Bench) -> None:
    manifest = bench.staged()
    bench.lake.publish(manifest, "a1")
    assert not bench.lake.has_forgotten(bench.output, of(manifest))
    bench.log.tables.clear()
    bench.log.stored.clear()
    assert bench.lake.has_forgotten(bench.output, of(manifest))


def test_a_note_that_is_gone_is_said(bench: Bench) -> None:
    manifest = bench.staged()
    bench.lake.publish(manifest, "a1")
    bench.log.stored.clear()
    with pytest.raises(LostDataError, match=r"_tidegate/inc of the table back"):
        bench.lake.published(bench.output, of(manifest))


def test_what_is_part_of_the_table_is_not_removed_with_what_is_staged(bench: Bench) -> None:
    lost, won = bench.staged(), bench.staged()
    bench.lake.publish(won, "a1")
    folders = bench.lake.staged_folders(bench.output)[won.batch.id]
    assert bench.lake.published_ids(bench.output, [won.batch.id]) == {won.batch.id}
    bench.lake.remove_staged(bench.output, folders)
    assert bench.lake.staged_folders(bench.output) == {}
    assert not bench.staged_files.has_attempt(lost.staging, "a1")
    assert bench.rows() == 3


def generation_of(bench: Bench, first: Manifest, number: int, rows: int) -> Manifest:
    """A later generation of a published batch, whose attempt `a1` has been sealed."""
    staged = bench.staged(first.batch.receipt.number + 1, first.batch.receipt.incarnation, rows)
    moved = bench.lake.staging_of(bench.output, first.batch.id, staged.delivery.token, number)
    Path(staged.staging.removeprefix("file://")).rename(moved.removeprefix("file://"))
    bench.lake.remove_staged(bench.output, [staged.staging])
    return replace(staged, staging=moved, generation=number)


def test_a_generation_replaces_a_batch_wherever_the_log_has_come_to(bench: Bench) -> None:
    first, second = bench.staged(1), bench.staged(2, rows=1)
    bench.lake.publish(first, "a1")
    bench.lake.publish(second, "a1")
    again, late = generation_of(bench, first, 2, rows=5), generation_of(bench, first, 2, rows=9)
    bench.lake.replace(again, "a1")
    assert bench.rows() == 6
    with pytest.raises(StaleError, match="generation 2 of the batch, or a later one"):
        bench.lake.replace(late, "a1")
    replacement, published = (ask(bench.output, of(first)) for ask in (bench.lake.replacement, bench.lake.published))
    assert replacement is not None
    assert published is not None
    assert [(each.generation, each.rows) for each in (replacement, published)] == [(2, 5), (1, 3)]
    third = bench.staged(3, rows=1)
    bench.lake.publish(third, "a1")
    assert bench.rows() == 7


def test_what_a_table_is_made_of_stays_when_generations_are_swept(bench: Bench) -> None:
    first = bench.staged(1)
    bench.lake.publish(first, "a1")
    lost, won = generation_of(bench, first, 2, rows=9), generation_of(bench, first, 2, rows=5)
    bench.lake.replace(won, "a1")
    bench.lake.remove_superseded(bench.output, of(first), [lost.staging, won.staging])
    assert bench.rows() == 5
    assert not bench.staged_files.has_attempt(lost.staging, "a1")


def test_subscriptions_and_incarnations_share_a_table(bench: Bench) -> None:
    one, other = bench.staged(1, "one"), bench.staged(1, "other")
    bench.lake.publish(one, "a1")
    bench.lake.publish(other, "a1")
    assert bench.rows() == 6


def test_of_many_that_publish_at_once_one_wins(bench: Bench) -> None:
    for number in range(1, TRIES + 1):
        deliveries = [bench.staged(number) for _ in range(RACERS)]
        with ThreadPoolExecutor(RACERS) as pool:
            won = sum(pool.map(lambda each: _publishes(bench, each), deliveries))
        assert (won, bench.rows()) == (1, 3 * number)


def test_publishing_against_setting_aside_leaves_one_truth(bench: Bench) -> None:
    for number in range(1, TRIES + 1):
        delivery = bench.staged(number)
        with ThreadPoolExecutor(2) as pool:
            publishing = pool.submit(_publishes, bench, delivery)
            pool.submit(bench.lake.set_aside, bench.output, of(delivery)).result()
        assert (bench.lake.published(bench.output, of(delivery)) is not None) == publishing.result()


def _publishes(bench: Bench, manifest: Manifest) -> bool:
    try:
        bench.lake.publish(manifest, "a1")
    except StaleError:
        return False
    return True


class NothingStaged(StagedFiles):
    """Attempts without files, which are nowhere."""

    def make_folder(self, staging: str) -> None:
        """Nothing is made."""

    def verified(self, manifest: Manifest, attempt: str) -> Manifest:  # noqa: ARG002 (there is no other)
        """It is as it was."""
        return manifest

    def withdraw(self, staging: str) -> None:
        """Nothing is marked."""


class Deliveries(RuleBasedStateMachine):
    """Deliveries begin, are withdrawn and try to publish in any order, as a model of one number has it."""

    def __init__(self) -> None:
        super().__init__()
        self.log = MemoryTableLog()
        self.lake = LogLake(self.log, NothingStaged())
        self.begun: list[Manifest] = []
        self.allowed: set[str] = set()
        self.won: str | None = None

    @rule()
    def begin(self) -> None:
        bench = Bench(Path("/nowhere"))
        bench.lake, bench.log = self.lake, self.log
        self.begun.append(bench.delivery())
        self.allowed.add(self.begun[-1].staging)

    @rule()
    def set_aside(self) -> None:
        self.lake.set_aside("file:///nowhere/table", Receipt("inc", f"b{1:020x}", 1))
        self.allowed.clear()

    @rule()
    def somebody_creates_the_table(self) -> None:
        self.log.create("file:///nowhere/table", (), ())

    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        if not self.begun:
            return
        manifest = data.draw(st.sampled_from(self.begun))
        may = self.won is None and manifest.staging in self.allowed
        try:
            self.lake.publish(manifest, "a1")
        except StaleError:
            assert not may
        else:
            assert may
            self.won = manifest.staging

    @invariant()
    def what_won_is_published(self) -> None:
        found = self.lake.published("file:///nowhere/table", Receipt("inc", f"b{1:020x}", 1))
        assert (found is not None) == (self.won is not None)


TestDeliveries = Deliveries.TestCase
TestDeliveries.settings = settings(max_examples=60, stateful_step_count=15, deadline=None)


def changing(bench: Bench, number: int, replaced: tuple[str, ...], deleted: int = 0) -> Manifest:
    """A delivery of changes whose attempt `a1` has been sealed: three rows in place of these files."""
    manifest = bench.delivery(number)
    folder = Path(manifest.staging.removeprefix("file://")) / "a1"
    files = {"part-0.parquet": 3, **({"_tombstones/part-0.parquet": deleted} if deleted else {})}
    staged = []
    for path, rows in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"n": list(range(rows))}), folder / path)
        staged.append(StagedFile(path, (folder / path).stat().st_size))
    result = {
        "format": 1,
        "batch_id": manifest.batch.id,
        "delivery": manifest.delivery.token,
        "attempt": "a1",
        "read": 10,
        "filtered": 9,
        "files": [],
        "rejected_files": [],
        "rewritten_files": [asdict(file) for file in staged[:1]],
        "tombstone_files": [asdict(file) for file in staged[1:]],
        "replaced_files": replaced,
    }
    (folder / "_result").mkdir()
    (folder / "_result" / "part-0").write_text(json.dumps(result))
    (found,) = bench.staged_files.results(manifest.staging)
    counts = bench.staged_files.seal(manifest.staging, found)
    return replace(manifest, batch=replace(manifest.batch, seal=counts.seal, rows=counts.written))


def live(bench: Bench, number: int) -> MergeTarget:
    return bench.lake.merge_target(bench.output, Receipt("inc", f"b{number:020x}", number))


def test_changes_replace_files_and_leave_the_deleted_keys_to_the_next_batch(bench: Bench) -> None:
    assert live(bench, 1) == MergeTarget({}, None)
    bench.lake.publish(bench.staged(1), "a1")
    target = live(bench, 2)
    assert (len(target.files), target.tombstones) == (1, ())
    manifest = changing(bench, 2, tuple(target.files), deleted=2)
    assert manifest.batch.rows == 0  # what was in the table before isn't counted
    bench.lake.publish(manifest, "a1")
    assert bench.rows() == 3
    bench.lake.set_aside(bench.output, of(bench.delivery(3)))
    after = live(bench, 4)
    assert after.files == {f"{manifest.staging}/a1/part-0.parquet": {}}
    assert after.tombstones == (f"{manifest.staging}/a1/_tombstones/part-0.parquet",)


def test_deleted_keys_are_left_to_an_incarnation_that_goes_on_from_where_one_stood(bench: Bench) -> None:
    bench.lake.publish(bench.staged(1), "a1")
    manifest = changing(bench, 2, tuple(live(bench, 2).files), deleted=2)
    bench.lake.publish(manifest, "a1")
    given_up = manifest.batch.next_receipt.next("b3")
    first, second = Receipt.first(), Receipt.first()
    assert bench.lake.merge_target(bench.output, first).tombstones == ()
    bench.lake.carry_over(bench.output, given_up, first)
    bench.lake.carry_over(bench.output, first.next("b1"), second)
    for receipt in (first, second):
        target = bench.lake.merge_target(bench.output, receipt.next("b1"))
        assert target.tombstones == (f"{manifest.staging}/a1/_tombstones/part-0.parquet",)


def test_deleted_keys_of_batches_before_there_was_a_table_are_told(bench: Bench) -> None:
    first, second = bench.delivery(1), bench.delivery(2)
    entries = LogEntries(bench.log, bench.output, of(first))
    text = json.dumps({"batch_id": first.batch.id, "output_files": [{"path": "_tombstones/part-0.parquet"}]})
    entries.publish(Entry(1, text, first.staging, "a1"), entries.beginning(), (), ())
    bench.lake.set_aside(bench.output, of(second))
    assert live(bench, 3) == MergeTarget({}, None, (f"{first.staging}/a1/_tombstones/part-0.parquet",))


def test_changes_of_files_that_were_compacted_meanwhile_arent_published(bench: Bench) -> None:
    bench.lake.publish(bench.staged(1), "a1")
    manifest = changing(bench, 2, tuple(live(bench, 2).files))
    (table,) = bench.log.tables.values()
    table.files = [replace(file, uri=f"{file.uri}-compacted") for file in table.files]
    with pytest.raises(RewrittenFilesError):
        bench.lake.publish(manifest, "a1")
    assert bench.lake.published(bench.output, of(manifest)) is None
    bench.log.tables.clear()
    with pytest.raises(RewrittenFilesError):
        bench.lake.publish(manifest, "a1")
