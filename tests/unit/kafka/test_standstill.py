import numpy as np

from tidegate.kafka.progress import Progress, Standstill
from tidegate.model.offsets import Range, TopicPartition

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def progress(*planned: Range) -> Progress:
    return Progress(planned or (Range("t", 0, 0, 10, start_epoch=3), Range("t", 1, 5, 10)))


def read(of: Progress, partition: int, *offsets: int) -> None:
    count = len(offsets)
    slots = of.slots(np.zeros(count, np.int32), np.full(count, partition, np.int32))
    of.read(slots, np.array(offsets, np.int64))


def test_an_end_has_the_epoch_of_its_last_record_and_without_a_record_that_of_its_start() -> None:
    done = progress()
    assert [r.end_epoch for r, _ in done.result()] == [3, None]
    read(done, 0, 0, 1)
    done.under(ONE, 4)
    assert [(r.end, r.start_epoch, r.end_epoch) for r, _ in done.result()] == [(2, 3, 4), (5, None, None)]


def test_an_end_behind_markers_only_has_no_epoch_that_is_known() -> None:
    done = progress()
    done.reached(ONE, 7)
    assert done.result()[0] == (Range("t", 0, 0, 7), 0)
    assert done.result()[0][0].end_epoch is None


def test_a_partition_that_stands_still_is_named_with_growing_pauses_until_it_moves() -> None:
    reading = progress()
    watch = Standstill(reading, now=0.0, patience=5.0)
    assert watch.overdue(4.9) == ()
    read(reading, 0, 0)
    assert watch.overdue(5.0) == (OTHER,)
    assert watch.overdue(9.9) == ()
    assert watch.overdue(10.0) == (ONE,)
    assert watch.overdue(15.0) == (OTHER,)
    assert watch.overdue(20.0) == (ONE,)
    read(reading, 1, 5)
    assert watch.overdue(25.0) == ()
    assert watch.overdue(30.0) == (OTHER,)


def test_a_finished_partition_may_stand_still() -> None:
    reading = progress(Range("t", 0, 0, 1), Range("t", 1, 0, 1))
    read(reading, 0, 0)
    assert Standstill(reading, now=0.0, patience=5.0).overdue(9.0) == (OTHER,)
