"""Another output than those of subscriptions, which a command fills."""

from collections.abc import Iterator
from pathlib import Path

from tidegate.config.output_checks import mixes_with
from tidegate.config.output_rules import wrong_output
from tidegate.config.outputs import output_of, taken_by
from tidegate.model.errors import WrongDefinitionError, message
from tidegate.model.output_uri import parse_output
from tidegate.runtime.pipeline import Pipeline


def other_output(pipeline: Pipeline, written: str, home: Path, undone: str) -> str:
    """The URI of an output of the subscription's format, as it was written; `undone` says that nothing was done.

    Raises WrongDefinitionError for what isn't an output of this format, or mixes with that of a subscription, with one
    that has batches of another, whatever its definition says now, or with what is the installation's own.
    """
    subscription, format_ = pipeline.subscription, pipeline.subscription.processing.format
    where = subscription.place
    if wrong := wrong_output(format_, written):
        raise WrongDefinitionError(message(f"{undone}: {wrong}", where))
    wanted = output_of(home, written, format_)
    if taken := taken_by(wanted):
        raise WrongDefinitionError(message(f"{undone}: {written} {taken}", where))
    outputs = {**pipeline.definitions.outputs(), subscription.name: pipeline.output}
    theirs = {f"the output of {name}": parse_output(uri).place for name, uri in outputs.items()}
    for places in ({**pipeline.definitions.own_places(), **theirs}, *_written_by_others(pipeline)):
        if mixed := mixes_with(str(wanted), places):
            raise WrongDefinitionError(message(f"{written} {mixed}: {undone}", where, "name another output"))
    return str(wanted)


def _written_by_others(pipeline: Pipeline) -> Iterator[dict[str, str]]:
    """The outputs that have batches neither of the subscription nor of its replays, each by what it is."""
    name = pipeline.subscription.name
    own = {name, *(replay.name for replay in pipeline.ledger.replays(name))}
    for other, uri in sorted(pipeline.ledger.written_outputs()):
        if other not in own:
            yield {f"an output that has batches of {other}": parse_output(uri).place}
