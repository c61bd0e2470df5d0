"""The settings as the command line finds them, and `tidegate settings`, which shows them."""

import os
from contextlib import suppress
from pathlib import Path

from tidegate.cli.console import Json, out, print_json
from tidegate.config.settings import Settings


def settings_here() -> Settings:
    """The settings in this environment and this working folder. Raises WrongDefinitionError."""
    folder = None
    with suppress(FileNotFoundError):  # it was deleted
        folder = Path.cwd()
    return Settings.from_environment(os.environ, folder)


def show_settings(*, as_json: Json = False) -> None:
    """Show the settings in force, and where each comes from: a variable, Airflow's configuration, or the default."""
    document = settings_here().to_json()
    if as_json:
        print_json(document)
        return
    for name, setting in document.items():
        out.print(f"{name}={setting['value']}  # {setting['origin']}", markup=False)
