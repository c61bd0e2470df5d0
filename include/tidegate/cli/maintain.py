"""`tidegate maintain`: compact, expire and remove, in the tables that subscriptions publish into."""

from typing import Annotated

import typer

from tidegate.cli.connections import connections_here
from tidegate.cli.console import Json
from tidegate.cli.each import tell_each
from tidegate.cli.settings import NameOrAll, all_names, settings_here
from tidegate.model.errors import WrongDefinitionError


def maintain(
    name: NameOrAll = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Maintain the tables that subscriptions publish into, by the retention in each table's properties.

    Delta: compact small files, remove expired files and commits, write a checkpoint. Iceberg: expire snapshots, and
    remove the files that only they name. Both, and Parquet on an object store: remove what Spark jobs wrote after their
    batch had ended. It may run at any time, also during runs.
    """
    from tidegate.operations.maintain import maintain_all  # noqa: PLC0415 - see above

    settings = settings_here()
    names = all_names(settings) if name is None else [name]
    done = maintain_all(names, settings, connections_here(), dry_run=dry_run)
    one = [] if name is None else list(done)
    if name is not None and not one:
        raise WrongDefinitionError(f"{name} publishes folders of Parquet, which need no maintenance: name another one")
    tell_each(one or done, named=name is not None, as_json=as_json)
