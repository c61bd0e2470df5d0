"""The settings as the command line finds them, and `tidegate settings`, which shows them."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.console import Json, out, print_json
from tidegate.config.airflow_cfg import airflow_home
from tidegate.config.settings import Settings, variable
from tidegate.model.errors import TidegateError, WrongDefinitionError


def settings_here() -> Settings:
    """The settings in this environment and this working folder. Raises WrongDefinitionError."""
    folder = None
    with suppress(FileNotFoundError):  # it was deleted
        folder = Path.cwd()
    return Settings.from_environment(os.environ, folder)


def all_names(settings: Settings) -> list[str]:
    """All subscriptions. Raises WrongDefinitionError if there are none."""
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above

    folder, names = settings.subscriptions, AllDefinitions(settings).names()
    if names:
        return names
    if not folder.is_dir():
        raise WrongDefinitionError(settings.no_subscriptions)
    raise WrongDefinitionError(
        f"there is no definition (*.yaml) in {folder}: write one, or set TIDEGATE_SUBSCRIPTIONS to their folder"
    )


def defined_names(incomplete: str) -> list[str]:
    """The names of definition files that begin so, for a shell that completes one; none where there is no folder."""
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - `tidegate --help` needn't wait for it

    with suppress(TidegateError):
        return [name for name in sorted(AllDefinitions(settings_here()).file_names()) if name.startswith(incomplete)]
    return []


Name = Annotated[
    str, typer.Argument(help="The subscription: the name of its file without .yaml.", autocompletion=defined_names)
]
NameOrAll = Annotated[str | None, typer.Argument(help="One subscription; default: all.", autocompletion=defined_names)]


def settings_for_new(folder: Path | None) -> Settings:
    """The settings with the home that a new definition belongs in.

    That is the folder if one is named, which is made then; else where definitions are looked for, if that was set, or
    has definitions, or Airflow is set up here; else the working folder.
    """
    if folder is None:
        settings = settings_here()
        is_airflow = "AIRFLOW_HOME" in os.environ or (airflow_home(os.environ) / "airflow.cfg").is_file()
        if settings.is_placed or settings.subscriptions.is_dir() or is_airflow:
            return settings
        folder = Path.cwd()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WrongDefinitionError(f"{folder} can't be made ({error.strerror}): name another folder") from None
    return Settings.from_environment({**os.environ, variable("home"): str(folder.absolute())})


def show_settings(*, as_json: Json = False) -> None:
    """Show the settings in force, and where each comes from: a variable, Airflow's configuration, or the default."""
    document = settings_here().to_json()
    if as_json:
        print_json(document)
        return
    for name, setting in document.items():
        out.print(f"{name}={setting['value']}  # {setting['origin']}", markup=False)
