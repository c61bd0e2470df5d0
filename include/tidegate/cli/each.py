"""Commands that do one thing to each of several subscriptions: what they say of each, and their exit status."""

from collections.abc import Iterable
from typing import Any, Protocol

import typer

from tidegate.cli.console import err, out, print_json
from tidegate.model.errors import TidegateError, WrongDefinitionError


class Done(Protocol):
    """What was done to one subscription, as a line by `str`."""

    @property
    def error(self) -> TidegateError | None:
        """What ended it, if anything did."""

    def to_json(self) -> dict[str, Any]:
        """As a document."""


def tell_each(done: Iterable[Done], *, named: bool, as_json: bool) -> None:
    """Print each as soon as it is done, or one document: a list, but for the subscription that was named.

    Raises Exit with 2 after an error by a definition, with 1 after another.
    """
    told = []
    for each in done:
        told.append(each)
        if not as_json:
            (err if each.error else out).print(str(each), markup=False)
    if as_json:
        documents = [each.to_json() for each in told]
        print_json(documents[0] if named else documents)
    errors = [each.error for each in told if each.error is not None]
    if errors:
        raise typer.Exit(2 if any(isinstance(error, WrongDefinitionError) for error in errors) else 1)
