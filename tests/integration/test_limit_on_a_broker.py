"""A batch that keeps failing, on a real broker: stopped until it is cleared, or given up."""

import pytest
from broker_world import committed, deliver, in_lake

from tidegate.model.batch import Outcome
from tidegate.model.errors import StoppedError
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import run_batch
from tidegate.testing.copying import CopyingProcessor
from tidegate_local.broker import Broker

pytestmark = pytest.mark.broker


def keep_failing(pipeline: Pipeline, processor: CopyingProcessor, times: int) -> list[str]:
    """Runs that fail so often, and what each of them said."""
    errors = []
    for _ in range(times):
        processor.failures.append("no memory")
        errors.append(repr(run_batch(pipeline, lambda _: None).error))
    return errors


def test_two_retries_are_three_deliveries_and_then_it_stands_still_until_cleared(
    broker: Broker, topic, produce, open_subscription, processor: CopyingProcessor
) -> None:
    name = topic()
    produce(name, 7)
    pipeline = open_subscription(name, max_retries=2)
    *retried, last = keep_failing(pipeline, processor, 3)
    assert [error.startswith("RecordsFailedError") and "no memory" in error for error in retried] == [True, True]
    assert last.startswith("StoppedError")
    parts = (f"subscription {name}", f"{name}-0 [0, 7)", "no memory", f"tidegate clear {name}")
    assert [part for part in parts if part not in last] == []
    assert isinstance(run_batch(pipeline, lambda _: None).error, StoppedError)
    assert (len(processor.delivered), committed(broker, f"{name}-lake", (name, 0))) == (3, [0])
    pipeline.clear("ada", "more memory")
    processor.failures.clear()
    assert deliver(pipeline) is not None
    assert (committed(broker, f"{name}-lake", (name, 0)), len(in_lake(pipeline))) == ([7], 7)


def test_what_is_ignored_is_committed_and_not_published(
    broker: Broker, topic, produce, open_subscription, processor: CopyingProcessor
) -> None:
    name = topic()
    produce(name, 7)
    pipeline = open_subscription(name, max_retries=1, failure_strategy="ignore")
    assert keep_failing(pipeline, processor, 2)[-1] == "None"
    given_up = pipeline.ledger.history(name, 1)[0].batch
    assert (given_up.condition, committed(broker, f"{name}-lake", (name, 0)), in_lake(pipeline)) == (
        Outcome.IGNORED,
        [7],
        [],
    )
    produce(name, 3)
    assert deliver(pipeline) is not None
    assert in_lake(pipeline) == [(0, offset) for offset in range(7, 10)]
