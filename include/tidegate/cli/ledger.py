"""`tidegate ledger`: back up the ledger, restore a backup."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli.console import Json, out, print_json
from tidegate.cli.settings import settings_here
from tidegate.config.settings import redact
from tidegate.model.errors import WrongDefinitionError

app = typer.Typer(no_args_is_help=True, help="Back up the ledger, or restore a backup.")


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(help="The file to write; it must not exist yet.")], *, as_json: Json = False
) -> None:
    """Write the whole ledger to a file, as it is at one instant. Runs may continue meanwhile.

    The file is a SQLite database, whatever database has the ledger. It is of use only with its landing and lake.
    """
    from tidegate.ledger.backup import back_up  # noqa: PLC0415 - `tidegate --help` needn't wait for it
    from tidegate.ledger.holders import is_made  # noqa: PLC0415 - see above

    settings = settings_here()
    if not is_made(settings.ledger):
        raise WrongDefinitionError(
            f"there is no ledger {redact(settings.ledger)} yet, and nothing was written: the first run makes it, or "
            "TIDEGATE_LEDGER names another one (`tidegate settings` shows it)"
        )
    contents = back_up(settings.ledger, file)
    if as_json:
        print_json({"file": str(file), **_to_json(contents)})
        return
    out.print(f"{file} has {contents}", markup=False)


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="A file of `tidegate ledger backup`, or a ledger in SQLite.")],
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace everything in the ledger by what a backup of it has.")
    ] = False,
    replace_another: Annotated[
        bool, typer.Option("--replace-another", help="Replace everything in the ledger by what another ledger had.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be replaced, and replace nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Restore a backup into the ledger that TIDEGATE_LEDGER names: the original one, or an empty one.

    Pause the DAGs first. A run that is under way fails, and the next one continues where Kafka and the lake stand.
    """
    from tidegate.ledger import backup as backups  # noqa: PLC0415 - see above
    from tidegate.runtime.unmade_ledger import readable_ledger  # noqa: PLC0415 - see above

    settings = settings_here()
    own = backups.Replaceable.OWN if replace or dry_run else backups.Replaceable.NOTHING
    replaceable = backups.Replaceable.ANYTHING if replace_another else own
    if dry_run:
        with readable_ledger(settings) as readable:
            restored = backups.preview_restore(file, readable.ledger, replaceable)
    else:
        restored = backups.restore(file, settings.ledger, replaceable)
    if as_json:
        before = restored.replaced
        replaced = {**_to_json(before.contents), "forgotten": before.forgotten} if before else None
        named = {"ledger": redact(settings.ledger), "dry_run": dry_run}
        print_json({**named, **_to_json(restored.now), "replaced": replaced})
        return
    if restored.replaced:
        out.print(f"{'would replace' if dry_run else 'replaced'} {restored.replaced}", markup=False)
    has = "would have" if dry_run else "has"
    unchanged = "; nothing was replaced" if dry_run else ""
    out.print(f"the ledger {redact(settings.ledger)} {has} {restored.now}{unchanged}", markup=False)


def _to_json(contents: Any) -> dict[str, Any]:
    newest = contents.newest.isoformat() if contents.newest else None
    return {**asdict(contents), "newest": newest}
