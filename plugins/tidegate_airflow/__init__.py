"""Tidegate in Airflow: DAGs made of subscriptions, and operators that call the engine. Thin on purpose.

`subscription_dags` and `refuse_broken_definitions` are all that DAG files of subscriptions need, `output_asset` and
`published_batches` those of DAGs that read what was published.
"""

import os
import sys
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow.sdk import DAG, Asset

    from tidegate.config.settings import Settings
    from tidegate.lake.published import PublishedBatch


def subscription_dags(folder: str | Path | None = None) -> "dict[str, DAG]":
    """The DAGs of all definitions by id, and those by which a person clears, commits and resets.

    For a DAG file: `globals().update(subscription_dags())`. Definitions that are wrong have none, see
    `refuse_broken_definitions`. `folder` is where the definitions are, if the file is to say it: the folder that
    Tidegate's settings name, else WrongDefinitionError is raised, for commands would look elsewhere.
    """
    from tidegate_airflow.dag_factory import all_dags  # noqa: PLC0415 (Airflow imports this package in every command)

    return all_dags(_settings(folder))


def refuse_broken_definitions(folder: str | Path | None = None) -> None:
    """Raise DefinitionError, with all problems of all definitions, if there are any.

    For a DAG file of its own, which then has an import error in Airflow: that of a file with DAGs withdraws them all.
    """
    from tidegate.config.reading import DefinitionError  # noqa: PLC0415 (see above)
    from tidegate_airflow.dag_factory import all_problems  # noqa: PLC0415 (see above)

    if problems := all_problems(_settings(folder)):
        raise DefinitionError(problems)


def output_asset(subscription: str) -> "Asset":
    """The asset of a subscription's output, for the schedule of a DAG that reads it.

    Raises DefinitionError, which Airflow shows as the DAG file's, where the subscription has no usable definition.
    """
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 (see above)
    from tidegate_airflow.assets import outlet  # noqa: PLC0415 (see above)

    settings = _settings(None)
    return outlet(AllDefinitions(settings).load(subscription), settings)


def published_batches(subscription: str, done: "Collection[str]" = ()) -> "list[PublishedBatch]":
    """The batches in a subscription's output, but for those whose ids are `done`, in the order of their commits.

    The lake itself is asked, so it doesn't matter which asset events there were. Raises DefinitionError, LostDataError
    for a folder named as a batch that isn't one, UnavailableError where the output can't be read.
    """
    from tidegate.lake.published import published_batches as batches_in  # noqa: PLC0415 (see above)
    from tidegate.parquet.known_stores import use_connections  # noqa: PLC0415 (see above)
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 (see above)
    from tidegate_airflow.assets import output_uri  # noqa: PLC0415 (see above)
    from tidegate_airflow.connections import AirflowConnections  # noqa: PLC0415 (see above)

    settings = _settings(None)
    use_connections(AirflowConnections())
    return batches_in(output_uri(AllDefinitions(settings).load(subscription), settings), done)


def import_from_dags_folder() -> None:
    """Let modules of the dags folder be found, as tasks find them: some of Airflow's commands don't see to it."""
    from airflow.sdk.configuration import conf  # noqa: PLC0415 (see above)

    folder: str = conf.get("core", "dags_folder")
    if folder not in sys.path:
        sys.path.append(folder)


def _settings(folder: str | Path | None) -> "Settings":
    from tidegate.config.settings import Settings  # noqa: PLC0415 (see above)
    from tidegate.model.errors import WrongDefinitionError  # noqa: PLC0415 (see above)

    import_from_dags_folder()
    settings = Settings.from_environment(os.environ)
    if folder is not None and Path(normpath(Path(folder).absolute())) != settings.subscriptions:
        raise WrongDefinitionError(
            f"this DAG file names {folder} as the folder of the definitions, and Tidegate's settings name "
            f"{settings.subscriptions}, where its commands and its tasks look: set TIDEGATE_SUBSCRIPTIONS, or "
            f"subscriptions below [tidegate] in airflow.cfg, to {folder}"
        )
    return settings
