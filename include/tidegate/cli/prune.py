"""`tidegate prune`: remove landings and ledger rows of batches that were published longer ago than `retention.ms`."""

from typing import Annotated

import typer

from tidegate.cli.connections import connections_here
from tidegate.cli.console import Json
from tidegate.cli.each import tell_each
from tidegate.cli.settings import NameOrAll, all_names, settings_here


def prune(
    name: NameOrAll = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed, and remove nothing.")] = False,
    removed: Annotated[
        bool,
        typer.Option("--removed", help="NAME has no definition any more: remove everything that it left, of any age."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove the landed files and ledger rows of batches that were published longer ago than retention.ms.

    Outputs aren't touched. Batches stay that are open, stopped, dead-lettered, retried, ignored or abandoned, that
    somebody decided about, or that are the newest of their group; also those of subscriptions without a definition,
    which --removed removes.
    """
    from tidegate.operations.prune import prune_all, prune_removed  # noqa: PLC0415 - see above
    from tidegate.parquet.known_stores import use_connections  # noqa: PLC0415 - `tidegate --help` needn't wait for it
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above

    settings = settings_here()
    use_connections(connections_here())
    if removed:
        if name is None:
            raise typer.BadParameter("say which subscription: tidegate prune NAME --removed")
        tell_each([prune_removed(name, settings, dry_run=dry_run)], named=True, as_json=as_json)
        return
    if name is not None:
        AllDefinitions(settings).load(name)  # raises: who names one wants to know
    names = all_names(settings) if name is None else [name]
    tell_each(prune_all(names, settings, dry_run=dry_run), named=name is not None, as_json=as_json)
