"""What Queue-Over-Http's clients POST becomes a definition that the loader takes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from queue_over_http_example import EXAMPLE

from tidegate.config.reading import read
from tidegate.model.subscription import Subscription
from tidegate_airflow.rest.queue_over_http import Consumer, problems


def loaded(folder: Path, body: dict[str, Any]) -> Subscription:
    consumer = Consumer.model_validate(body)
    file = folder / f"{consumer.id}.yaml"
    file.write_text(yaml.safe_dump(consumer.definition()))
    reading = read(file)
    assert reading.subscription is not None, reading.problems
    return reading.subscription


def test_the_references_example_is_a_subscription(tmp_path: Path) -> None:
    subscription = loaded(tmp_path, EXAMPLE)
    endpoint = subscription.processing.endpoint
    assert endpoint is not None
    assert (subscription.name, subscription.consumer.group_id, subscription.connection) == (
        "my-first-consumer",
        "consumers",
        "Kafka",
    )
    assert (subscription.commit_strategy, subscription.auto_commit_interval_ms) == ("throttled", 100)
    assert (subscription.schedule, subscription.max_retries, subscription.failure_strategy) == (
        "@continuous",
        0,
        "ignore",
    )
    assert (endpoint.concurrency, endpoint.delay_ms, endpoint.attempts) == (10, 1000, 11)
    assert endpoint.headers == {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("topics", "selection"),
    [
        ([{"name": "orders[.].*", "pattern": True}], "TopicPattern(pattern='orders[.].*', internal=False)"),
        ([{"name": "a"}, {"name": "b"}], "TopicNames(names=('a', 'b'))"),
        (
            [{"name": "a", "partitions": [{"number": 2}, {"number": 0}]}],
            "TopicPartitions(partitions={'a': (0, 2)}, cursors={}, ends={})",
        ),
    ],
)
def test_topics_are_those_that_are_meant(tmp_path: Path, topics: list[dict[str, Any]], selection: str) -> None:
    assert str(loaded(tmp_path, {**EXAMPLE, "topics": topics}).topics) == selection


def test_without_a_period_a_pack_is_committed_when_all_of_it_is_done(tmp_path: Path) -> None:
    assert loaded(tmp_path, {**EXAMPLE, "topics": [{"name": "a"}]}).commit_strategy == "after-processing"


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"id": ""}, "id"),
        ({"group": {}}, "group.id"),
        ({"topics": []}, "topics"),
        ({"topics": [{"name": "a", "config": {"concurrencyFactor": 0}}]}, "topics.0.config.concurrencyFactor"),
        ({"topics": [{"name": "a", "pattern": True}, {"name": "b"}]}, "topics"),
        ({"topics": [{"name": "a", "partitions": [{"number": 0}]}, {"name": "b"}]}, "topics"),
        ({"topics": [{"name": "a", "config": {"concurrencyFactor": 2}}, {"name": "b"}]}, "topics"),
        ({"subscriptionMethod": {"type": "grpc", "uri": "https://h/"}}, "subscriptionMethod.type"),
        ({"subscriptionMethod": {}}, "subscriptionMethod.uri"),
        ({"colour": "s3cret"}, "colour"),
    ],
)
def test_what_is_no_subscription_is_said_by_the_path_of_its_property(change: dict[str, Any], where: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Consumer.model_validate({**EXAMPLE, **change})
    (problem,) = problems(raised.value)
    assert problem["property"] == where
    assert problem["message"]
    assert "s3cret" not in json.dumps(problem)


def test_a_server_that_is_down_or_slow_stops_nothing(tmp_path: Path) -> None:
    subscription = loaded(tmp_path, EXAMPLE)
    assert subscription.unprocessed_record_max_age_ms == 0
    assert subscription.consumer.max_poll_interval_ms == 23 * 3_600_000


def test_the_receiver_gets_text_in_utf_8_unless_it_wants_another_charset(tmp_path: Path) -> None:
    endpoint = loaded(tmp_path, EXAMPLE).processing.endpoint
    assert endpoint is not None
    assert (endpoint.charset, endpoint.encoding) == ("UTF-8", "UTF-8")
