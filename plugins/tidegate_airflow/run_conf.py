"""What the conf of one run may say: the DAG's params, and nothing else, or a typing error would pass in silence."""

from collections.abc import Collection, Mapping
from typing import Any

from airflow.sdk import Param

from tidegate.config.nearest import nearest
from tidegate.config.property_types import LONG_MAX
from tidegate.model.errors import WrongDefinitionError
from tidegate.model.subscription import Subscription

_PROPERTIES: Mapping[str, str] = {
    "max.poll.records": "consumer.max.poll.records",
    "poll-timeout.ms": "poll-timeout.ms",
}
_OF_AIRFLOW = frozenset({"openlineage"})  # which a DAG that triggers this one adds


def run_params(subscription: Subscription) -> dict[str, Param]:
    """The params of a subscription's DAG: properties that make sense for one run, at their defined values."""
    return {
        "max.poll.records": Param(
            subscription.consumer.max_poll_records,
            type="integer",
            minimum=1,
            maximum=LONG_MAX,
            title="max.poll.records",
            description="How many records this run's batch has at most. A batch that is open keeps its own.",
        ),
        "poll-timeout.ms": Param(
            subscription.poll_timeout_ms,
            type="integer",
            minimum=1,
            title="poll-timeout.ms",
            description="How long this run waits for records, and each member for those it lands.",
        ),
    }


def changed_properties(conf: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a run's conf changes in its definition, by the properties' whole names."""
    refuse_unknown(conf, _PROPERTIES)
    return {_PROPERTIES[name]: value for name, value in (conf or {}).items() if name in _PROPERTIES}


def refuse_unknown(conf: Mapping[str, Any] | None, known: Collection[str]) -> None:
    """Raise WrongDefinitionError for a conf with a key that isn't known: Airflow itself takes any."""
    unknown = [name for name in conf or {} if name not in known and name not in _OF_AIRFLOW]
    if not unknown:
        return
    near = nearest(unknown[0].removeprefix("consumer."), known)
    hint = f"did you mean {near}?" if near else f"there are: {', '.join(known)}"
    raise WrongDefinitionError(
        f"this run's conf has {', '.join(map(repr, unknown))}, which isn't a param of this DAG; {hint}; "
        "nothing was done: trigger another run"
    )
