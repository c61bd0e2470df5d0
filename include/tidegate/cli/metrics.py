"""`tidegate metrics`: the metrics of subscriptions as OpenMetrics text, the alert rules on them, and a dashboard."""

import sys
from collections.abc import Sequence
from enum import StrEnum
from importlib.resources import files
from typing import Annotated

import typer

from tidegate.cli.connections import connections_here
from tidegate.cli.pipeline import looking
from tidegate.cli.settings import NameOrAll, all_names, settings_here
from tidegate.config.settings import Settings
from tidegate.model.errors import WrongDefinitionError


class TextFormat(StrEnum):
    """Of the text: OpenMetrics, or what Prometheus had before, which node_exporter's textfile collector reads."""

    OPENMETRICS = "openmetrics"
    PROMETHEUS = "prometheus"


def metrics(
    name: NameOrAll = None,
    *,
    observe: Annotated[
        bool, typer.Option("--observe/--no-observe", help="Look at each subscription now, or print what was last seen.")
    ] = True,
    text_format: Annotated[
        TextFormat, typer.Option("--format", help="The format of the text.")
    ] = TextFormat.OPENMETRICS,
    rules: Annotated[bool, typer.Option("--rules", help="Print alert rules for Prometheus instead.")] = False,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Print a dashboard for Grafana instead.")] = False,
) -> None:
    """Print metrics as OpenMetrics text. What is seen is kept in the ledger, as by the DAG tidegate_monitor.

    A broker that doesn't answer is a metric, not a failure. Exit status 1: the ledger doesn't answer.
    """
    if rules or dashboard:
        if name or (rules and dashboard):
            raise WrongDefinitionError("--rules and --dashboard each print one file: give nothing else")
        sys.stdout.write(template("tidegate.rules.yml" if rules else "tidegate.dashboard.json"))
        return
    settings = settings_here()
    names = _names(name, settings)
    with looking(settings, changes=False) as readable:
        if observe:
            _observe(names, readable)
        _print(names, readable, text_format)


def template(name: str) -> str:
    """The text of a file that is shipped for other programs."""
    return (files("tidegate.cli") / "templates" / name).read_text("utf-8")


def _names(name: str | None, settings: Settings) -> list[str]:
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - `tidegate --help` needn't wait for it

    if name is None:
        return all_names(settings)
    AllDefinitions(settings).load(name)  # raises: who names one wants to know
    return [name]


def _observe(names: Sequence[str], settings: Settings) -> None:
    from tidegate.monitoring.observing import observe_all  # noqa: PLC0415 - see above

    for _ in observe_all(names, settings, connections_here()):
        pass


def _print(names: Sequence[str], settings: Settings, text_format: TextFormat) -> None:
    from tidegate.monitoring.exposition import OPENMETRICS, PROMETHEUS, exposed  # noqa: PLC0415 - see above
    from tidegate.monitoring.figures import figures_of  # noqa: PLC0415 - see above

    accept = OPENMETRICS if text_format is TextFormat.OPENMETRICS else PROMETHEUS
    text, _ = exposed(figures_of(names, settings), accept)
    sys.stdout.write(text.decode())
