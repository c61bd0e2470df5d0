"""The callbacks that a definition names, as Airflow gets them: parsing a DAG file imports nothing of theirs.

Airflow calls those of a DAG in its DAG processor, once for each run that has failed or succeeded: it parses the DAG
file again and takes them from the DAG that it finds there.
"""

import importlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class NamedCallback:
    """Calls the `module:function` that a definition names as `property`, which it imports only then.

    One that can't be imported is a line in the log. What the function itself raises Airflow logs, and counts.
    """

    property: str
    name: str

    def __call__(self, context: Mapping[str, Any]) -> None:
        """Call it with the context that Airflow gives."""
        function = self._imported()
        if function is None:
            return
        try:
            function(context)
        except SystemExit as error:
            raise RuntimeError(f"{self.property} {self.name} ended by SystemExit({error.code})") from error

    def _imported(self) -> Callable[[Mapping[str, Any]], object] | None:
        module, _, name = self.name.partition(":")
        try:
            function = getattr(importlib.import_module(module), name)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything
            self._report(f"{type(error).__name__}: {error}")
            return None
        if not callable(function):
            self._report(f"{name} isn't a function")
            return None
        return function  # type: ignore[no-any-return]  # whatever a module has

    def _report(self, why: str) -> None:
        log.error(
            "%s isn't called, the run is as it is: %s: %s: correct the name, or see to it that Airflow's DAG processor "
            "can import it; `airflow tidegate check` tries it",
            self.property,
            self.name,
            why,
        )


def named_callback(path: str, name: str | None) -> NamedCallback | None:
    """The callback of this name, None for none."""
    return None if name is None else NamedCallback(path, name)
