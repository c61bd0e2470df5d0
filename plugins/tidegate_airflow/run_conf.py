"""What the conf of one run may say: the DAG's params, and nothing else, or a typing error would pass in silence."""

from collections.abc import Collection, Mapping
from operator import attrgetter
from typing import Any

from airflow.sdk import Param

from tidegate.config.nearest import nearest
from tidegate.config.property_table import PROPERTIES, field_of, path_of
from tidegate.model.errors import WrongDefinitionError
from tidegate.model.subscription import Subscription

_PARAMS: Mapping[str, tuple[str, str]] = {
    "max.poll.records": (
        "consumer",
        "How many records this run's batch has at most. A batch that is open keeps its own.",
    ),
    "poll-timeout.ms": ("", "How long this run waits for records, and how long each member for those it lands."),
}
"""The properties that make sense for one run, each with its section and what it does there."""
_OF_AIRFLOW = frozenset({"openlineage"})  # which a DAG that triggers this one adds


def run_params(subscription: Subscription) -> dict[str, Param]:
    """The params of a subscription's DAG, at their defined values; they take what the properties take."""
    return {
        name: Param(
            attrgetter(field_of(section, name))(subscription),
            **PROPERTIES[section][name].type.allowed().schema,
            title=name,
            description=does,
        )
        for name, (section, does) in _PARAMS.items()
    }


def changed_properties(conf: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a run's conf changes in its definition, by the properties' whole names."""
    refuse_unknown(conf, _PARAMS)
    return {path_of(_PARAMS[name][0], name): value for name, value in (conf or {}).items() if name in _PARAMS}


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
