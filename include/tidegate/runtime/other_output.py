"""Another output than those of subscriptions, which a command fills."""

from pathlib import Path

from tidegate.config.output_checks import mixes_with
from tidegate.config.output_rules import wrong_output
from tidegate.config.outputs import output_of, taken_by
from tidegate.model.errors import WrongDefinitionError, location, message
from tidegate.model.output_uri import parse_output
from tidegate.runtime.pipeline import Pipeline


def other_output(pipeline: Pipeline, written: str, home: Path, undone: str) -> str:
    """The URI of an output of the subscription's format, as it was written; `undone` says that nothing was done.

    Raises WrongDefinitionError for what isn't an output of this format, or mixes with that of a subscription, or
    with what is the installation's own.
    """
    subscription, format_ = pipeline.subscription, pipeline.subscription.processing.format
    where = location(subscription=subscription.name, group=subscription.consumer.group_id)
    if wrong := wrong_output(format_, written):
        raise WrongDefinitionError(message(f"{undone}: {wrong}", where))
    wanted = output_of(home, written, format_)
    if taken := taken_by(wanted):
        raise WrongDefinitionError(message(f"{undone}: {written} {taken}", where))
    outputs = {**pipeline.definitions.outputs(), subscription.name: pipeline.output}
    theirs = {f"the output of {name}": parse_output(uri).place for name, uri in outputs.items()}
    if mixed := mixes_with(str(wanted), {**pipeline.definitions.own_places(), **theirs}):
        raise WrongDefinitionError(message(f"{written} {mixed}: {undone}", where, "name another output"))
    return str(wanted)
