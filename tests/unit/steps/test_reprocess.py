"""A published batch is made once more, and nothing else of it changes."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from definitions import SUBSCRIPTION
from world import OUTPUT, Before, Crash, World, deliver, planned

from tidegate.model import dead_letter_headers
from tidegate.model.errors import (
    BatchFailedError,
    CorruptFileError,
    LostDataError,
    MisfitError,
    StaleError,
    TidegateError,
    UnavailableError,
    WrongDefinitionError,
)
from tidegate.model.manifest import Published
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import last
from tidegate.model.subscription import DeadLetterQueue, DelayedRetryTopic
from tidegate.ports import Generation, GenerationOutcome, Lake, Landing, Processor, StagedOutput
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.read_again import landed_records
from tidegate.steps.reprocess import ReprocessRequest, preview_reprocess, reprocess
from tidegate.testing.effects import Effect, watched
from tidegate.testing.generations import MemoryGenerations
from tidegate.testing.outbox import MemoryOutbox

OTHER = "file:///lake/again"
REQUEST = ReprocessRequest("ada", "a mended transform")


class Reprocessed(World):
    """A world with a batch of five records that is committed."""

    def __init__(self, **definition: Any) -> None:
        super().__init__()
        self.topics.create("dead")
        self.topics.create("orders_retry_10000")
        self.definition = definition
        self.generations = MemoryGenerations(self.ledger, self.clock.now)
        self.produce(5)
        done = deliver(self.pipeline(**definition))
        assert done is not None
        self.batch = done

    def found(self, output: str = OUTPUT) -> Published | None:
        return self.lake.replacement(output, self.batch.next_receipt)

    def reprocess(
        self,
        pipeline: Pipeline | None = None,
        request: ReprocessRequest = REQUEST,
        letters: MemoryOutbox | None = None,
    ) -> Generation:
        pipeline = pipeline or self.pipeline(**self.definition)
        return reprocess(pipeline, self.generations, self.batch, request, letters)


class On:
    """Does something after an effect."""

    def __init__(self, method: Callable[..., Any], act: Callable[[], None]) -> None:
        self._effect, self._act = Effect.of(method), act

    def before(self, effect: Effect) -> None:
        """Goes on."""

    def after(self, effect: Effect) -> None:
        if effect == self._effect:
            self._act()


class Refused(On):
    """Something happens in place of this method of a port."""

    def before(self, effect: Effect) -> None:
        super().after(effect)

    def after(self, effect: Effect) -> None:
        """Too late."""


class Killed:
    """The process is killed before this method of a port: it does nothing more."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._effect, self._is_dead = Effect.of(method), False

    def before(self, effect: Effect) -> None:
        self._is_dead |= effect == self._effect
        if self._is_dead:
            raise Crash

    def after(self, effect: Effect) -> None:
        """Goes on."""


def crash() -> None:
    raise Crash


@pytest.fixture
def world() -> Reprocessed:
    return Reprocessed()


def test_the_output_has_the_new_generation_and_the_batch_stays_as_it_is(world: Reprocessed) -> None:
    before = world.ledger.batch(world.batch.id), world.committed()
    world.processor.filtered = 1
    done = world.reprocess()
    assert (done.number, done.outcome) == (2, GenerationOutcome.REPLACED)
    assert (done.made.rows, done.made.rejected, done.made.filtered) == (4, 0, 1)
    found = world.found()
    assert found is not None
    assert (found.generation, found.rows, found.ranges, found.files) == (2, 4, world.batch.ranges, world.batch.files)
    assert (world.ledger.batch(world.batch.id), world.committed()) == before
    assert world.published() == [(0, 5)]


def test_its_files_have_the_size_that_the_definition_asks_for() -> None:
    world = Reprocessed(processing=replace(SUBSCRIPTION.processing, target_file_size_bytes=2**20))
    world.reprocess()
    assert [manifest.target_file_bytes for manifest in world.processor.delivered] == [2**20, 2**20]


def test_a_batch_that_was_lost_and_read_again_is_not_made_a_second_time(world: Reprocessed) -> None:
    del world.lake.published_attempts[OUTPUT, world.batch.id]
    assert world.reprocess().outcome is GenerationOutcome.REPLACED, "its records are nowhere else"
    del world.lake.published_attempts[OUTPUT, world.batch.id]
    world.offsets.reset({TopicPartition("orders", 0): 3})
    world.produce(2)
    again = deliver(world.pipeline())
    assert again is not None
    with pytest.raises(StaleError, match=rf"batch {again.id} has read its records again.*name another --output"):
        world.reprocess()
    with pytest.raises(StaleError, match="read its records again"):
        preview_reprocess(world.pipeline(), world.batch, REQUEST)
    assert world.published() == [(3, 7)]
    assert world.reprocess(request=replace(REQUEST, output=OTHER)).outcome is GenerationOutcome.REPLACED


def test_a_batch_whose_rejected_records_are_retried_is_not_made_a_second_time() -> None:
    retry = DelayedRetryTopic(("orders_retry_10000",))
    world = Reprocessed(failure_strategy="delayed-retry-topic", delayed_retry_topic=retry)
    assert world.reprocess().number == 2, "none was rejected"
    world.batch = replace(world.batch, rejected=3)
    with pytest.raises(StaleError, match=r"3 rejected records went to a retry topic.*name another --output"):
        world.reprocess()
    with pytest.raises(StaleError, match="went to a retry topic"):
        preview_reprocess(world.pipeline(**world.definition), world.batch, REQUEST)
    assert world.reprocess(request=replace(REQUEST, output=OTHER)).number == 3


def test_into_another_output_what_is_published_stays(world: Reprocessed) -> None:
    world.reprocess(request=replace(REQUEST, output=OTHER))
    assert world.found() is None
    found = world.found(OTHER)
    assert found is not None
    assert found.generation == 2
    assert world.reprocess(request=replace(REQUEST, output=OTHER)).number == 3


@pytest.mark.parametrize("method", [Landing.put_manifest, Processor.run, StagedOutput.results, Lake.replace])
def test_one_that_was_killed_is_taken_up_by_the_same_command(world: Reprocessed, method: Callable[..., Any]) -> None:
    with pytest.raises(Crash):
        world.reprocess(watched(world.pipeline(), Before(method)))
    assert world.found() is None
    assert world.reprocess().number == 2
    assert [each.outcome for each in world.generations.of(world.batch.id)] == [GenerationOutcome.REPLACED]
    assert not any("-g2-" in folder for folder in world.lake.staged)


def test_one_that_was_killed_once_it_was_in_the_output_is_found_there(world: Reprocessed) -> None:
    with pytest.raises(Crash):
        world.reprocess(watched(world.pipeline(), On(Lake.replace, crash)))
    delivered = len(world.processor.delivered)
    done = world.reprocess()
    assert (done.number, done.outcome, done.made.rows) == (2, GenerationOutcome.REPLACED, 5)
    assert len(world.processor.delivered) == delivered
    assert world.reprocess().number == 3


def test_of_two_the_one_that_began_first_gives_way(world: Reprocessed) -> None:
    begin_too = On(
        StagedOutput.results, lambda: world.generations.begin(world.batch.id, OUTPUT, "grace", "", 1) and None
    )
    with pytest.raises(StaleError, match="somebody else has taken up generation 2"):
        world.reprocess(watched(world.pipeline(), begin_too))
    assert world.found() is None


def test_the_one_that_gives_way_says_so_where_the_other_has_taken_away_what_its_job_reads(world: Reprocessed) -> None:
    def overtake() -> None:
        world.reprocess()
        raise BatchFailedError("PATH_NOT_FOUND")

    with pytest.raises(StaleError, match="somebody else has taken up generation 2"):
        world.reprocess(watched(world.pipeline(), Refused(Processor.run, overtake)))
    assert [each.outcome for each in world.generations.of(world.batch.id)] == [GenerationOutcome.REPLACED]


def test_what_fails_the_job_replaces_nothing_and_the_next_command_goes_on(world: Reprocessed) -> None:
    world.processor.failures = ["no rate for XYZ"]
    with pytest.raises(BatchFailedError, match="no rate for XYZ"):
        world.reprocess()
    assert world.found() is None
    assert world.generations.reprocessed("orders") == ()
    assert world.reprocess().number == 3
    failed, replaced = world.generations.of(world.batch.id)
    assert (failed.outcome, replaced.outcome) == (GenerationOutcome.FAILED, GenerationOutcome.REPLACED)
    assert not any("-g2-" in folder for folder in world.lake.staged)


@pytest.mark.parametrize(
    ("error", "is_open"),
    [(MisfitError("no column"), False), (CorruptFileError("damaged"), False), (UnavailableError("away"), True)],
)
def test_what_the_output_refuses_has_failed_and_what_it_did_not_answer_may_be_there(
    world: Reprocessed, error: TidegateError, is_open: bool
) -> None:
    def refuse() -> None:
        raise error

    with pytest.raises(type(error)):
        world.reprocess(watched(world.pipeline(), Refused(Lake.replace, refuse)))
    assert [each.is_open for each in world.generations.of(world.batch.id)] == [is_open]


def test_a_rejected_record_fails_it_where_the_strategy_lets_none_be_rejected(world: Reprocessed) -> None:
    world.processor.rejected = 1
    with pytest.raises(BatchFailedError):
        world.reprocess()
    assert world.found() is None


@pytest.fixture
def rejecting() -> Reprocessed:
    """Of whose five records the transform rejects two from now on."""
    world = Reprocessed(failure_strategy="dead-letter-queue", dead_letter_queue=DeadLetterQueue("dead"))
    world.processor.rejected = 2
    return world


def offsets_of(letters: MemoryOutbox) -> list[str]:
    assert {each.topic for each in letters.produced} <= {"dead"}
    return [str(last(each.headers, dead_letter_headers.OFFSET), "ascii") for each in letters.produced]


@pytest.mark.parametrize("output", [None, OTHER])
def test_what_is_rejected_is_produced_where_somebody_asks(rejecting: Reprocessed, output: str | None) -> None:
    letters, request = MemoryOutbox(), replace(REQUEST, output=output)
    assert rejecting.reprocess(request=request).made.rejected == 2
    rejecting.processor.rejected = 1
    rejecting.reprocess(request=request, letters=letters)
    assert offsets_of(letters) == ["0"]


@pytest.mark.parametrize(("owner", "method", "sent"), [("letters", "send", 1), ("generations", "end", 2)])
def test_letters_come_again_rather_than_never(
    rejecting: Reprocessed, monkeypatch: pytest.MonkeyPatch, owner: str, method: str, sent: int
) -> None:
    letters = MemoryOutbox()
    with monkeypatch.context() as killed:
        killed.setattr({"letters": letters, "generations": rejecting.generations}[owner], method, lambda *_: crash())
        with pytest.raises(Crash):
            rejecting.reprocess(letters=letters)
    assert rejecting.reprocess(letters=letters).number == 2
    assert offsets_of(letters) == ["0", "1"] * sent


def test_letters_are_refused_where_there_is_no_topic_for_them(rejecting: Reprocessed) -> None:
    rejecting.topics.delete("dead")
    with pytest.raises(WrongDefinitionError, match="dead-letter topic dead isn't there"):
        rejecting.reprocess(letters=MemoryOutbox())
    failing = rejecting.pipeline(failure_strategy="fail")
    with pytest.raises(
        WrongDefinitionError, match=r"failure-strategy: fail produces no record.*leave out --dead-letters"
    ):
        rejecting.reprocess(failing, letters=MemoryOutbox())
    assert rejecting.found() is None


def test_an_open_batch_is_refused_with_a_remedy(world: Reprocessed) -> None:
    world.produce(1)
    open_one = planned(world.pipeline())
    assert open_one is not None
    world.batch = open_one
    with pytest.raises(StaleError, match=r"only one that is committed is reprocessed.*tidegate run orders"):
        world.reprocess()


@pytest.mark.parametrize(
    ("failure_strategy", "said"),
    [
        ("ignore", "ignored, and nothing of it is published.*tidegate replay orders"),
        ("dead-letter-queue", "dead-lettered, and nothing of it.*tidegate dead-letters redrive orders"),
        ("delayed-retry-topic", "retried, and nothing of it.*a later batch delivers them.*tidegate batches orders"),
    ],
)
def test_one_of_which_nothing_is_published_is_refused_and_says_where_its_records_are(
    failure_strategy: str, said: str
) -> None:
    world = Reprocessed()
    world.topics.create("dead-letter-topic-orders")
    world.processor.failures = ["no"] * 9
    world.produce(1)
    retries = DelayedRetryTopic(topics=("orders_retry_10000",))
    pipeline = world.pipeline(failure_strategy=failure_strategy, max_retries=0, delayed_retry_topic=retries)
    batch = planned(pipeline)
    assert batch is not None
    with pytest.raises(BatchFailedError):
        pipeline.process(batch.id)
    discarded = pipeline.settle(batch.id)
    assert discarded is not None
    world.batch = discarded
    with pytest.raises(StaleError, match=said):
        world.reprocess()


@pytest.mark.parametrize("strategy", ["checkpoint", "throttled"])
def test_one_that_depends_on_others_is_refused(world: Reprocessed, strategy: Any) -> None:
    world.batch = replace(world.batch, commit_strategy=strategy)
    with pytest.raises(WrongDefinitionError, match=r"(?s)commit-strategy.*tidegate replay orders"):
        world.reprocess()


def test_changes_of_a_table_arent_made_again_by_themselves(world: Reprocessed) -> None:
    pipeline = world.pipeline()
    changes = replace(pipeline.subscription.processing, keys=("id",), sequence_by=("offset",))
    feed = replace(pipeline, subscription=replace(pipeline.subscription, processing=changes))
    said = r"(?s)are changes \(processing\.keys\), and the table has only the newest.*tidegate replay orders"
    with pytest.raises(WrongDefinitionError, match=said):
        world.reprocess(feed)


def test_in_place_only_where_somebody_says_so(world: Reprocessed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(world.lake), "replaces_at_once", lambda *_: False)
    with pytest.raises(WrongDefinitionError, match=r"name another --output, or say --in-place"):
        world.reprocess()
    assert world.reprocess(request=replace(REQUEST, in_place=True)).number == 2


def test_a_landing_that_is_gone_is_read_from_kafka_again_and_kept_for_that_time_only(world: Reprocessed) -> None:
    world.landing.remove([file.uri for file in world.batch.files])
    assert world.reprocess().made.rows == 5
    found = world.found()
    assert found is not None
    assert found.files == world.batch.files
    assert not world.landing.files


def forget_landing(world: Reprocessed) -> None:
    world.landing.remove([file.uri for file in world.batch.files])


def test_of_two_that_read_from_kafka_again_the_one_that_gives_way_leaves_the_files_of_the_other(
    world: Reprocessed,
) -> None:
    forget_landing(world)
    pipeline = world.pipeline()
    with ExitStack() as earlier:
        earlier.enter_context(landed_records(pipeline, world.batch, ["first"]))
        with landed_records(pipeline, world.batch, ["first", "second"]) as later:
            earlier.close()
            world.landing.verify(later.files)
    assert not world.landing.files


@pytest.mark.parametrize("output", [None, OTHER])
def test_what_a_killed_one_read_from_kafka_again_goes_with_the_next(world: Reprocessed, output: str | None) -> None:
    forget_landing(world)
    with pytest.raises(Crash):
        world.reprocess(watched(world.pipeline(), Killed(Processor.run)))
    assert len(world.landing.files) == 1
    world.reprocess(request=replace(REQUEST, output=output))
    assert not world.landing.files


def expire(world: Reprocessed) -> None:
    world.topics.expire("orders", 2)


def compact(world: Reprocessed) -> None:
    world.topics.remove("orders", 3)


def create_again(world: Reprocessed) -> None:
    world.topics.delete("orders")
    world.topics.create("orders")
    world.produce(9)


def create_again_and_run(world: Reprocessed) -> None:
    create_again(world)
    deliver(world.pipeline(on_data_loss="reset"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (expire, r"Kafka doesn't hold all of orders-0 \[0, 5\) any more"),
        (compact, "it was compacted"),
        (create_again, "topic orders was deleted and created again"),
        (create_again_and_run, "the group was reset or a topic created again"),
    ],
)
def test_records_that_kafka_lost_are_refused_by_name(
    world: Reprocessed, change: Callable[[Reprocessed], None], why: str
) -> None:
    forget_landing(world)
    change(world)
    with pytest.raises(LostDataError, match=rf"its 5 records can't be had any more.*{why}"):
        world.reprocess()
    assert world.found() is None
    assert not [uri for uri in world.landing.files if f"/{world.batch.id}-" in uri]
