"""The commits of an output of plain Parquet on an object store, read one by one, for whoever reads its files."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Final

from tidegate.lake.object_store.calls import objects_of
from tidegate.lake.object_store.log import COMMITS, parsed, sequence_of, table_id_of
from tidegate.lake.staging import batch_staged_as
from tidegate.parquet.known_stores import object_place

_READERS: Final = 16

Committed = tuple[str | None, int, str, int, int, tuple[tuple[str, str | None], ...]]
"""Of a file: its batch's id and number, its URI without a connection, bytes, rows, and partition."""


def committed_files(output: str) -> Iterator[Committed]:
    """The files of all commits, in their order: an incarnation after the one that began before it.

    The newest generation of a batch that was replaced stands where the batch's own commit does. Raises as
    `ObjectLog.load` does.
    """
    objects = objects_of(output)
    table_id = table_id_of(objects, output)
    if table_id is None:
        return
    paths = _in_order(list(objects.all(f"{COMMITS}/{table_id}")))
    place = object_place(output)
    folder = place.uri if place else output
    with ThreadPoolExecutor(_READERS) as pool:
        contents = zip(paths, pool.map(objects.read, paths), strict=True)
        commits = [parsed(content, f"{output}/{path}") for path, content in contents]
    for commit in _replaced(commits):
        yield from (_file(commit, each, folder) for each in commit["files"])


def _replaced(commits: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The commits that count; one that replaces a batch has the batch's number, and its place, if that has one."""
    newest = {commit["replaces"]["batch_id"]: commit for commit in commits if "replaces" in commit}
    counted = {batch: {**commit, "number": commit["replaces"]["number"]} for batch, commit in newest.items()}
    with_own_place = {_batch_in(commit) for commit in commits if "replaces" not in commit}
    for commit in commits:
        batch = _batch_in(commit)
        if batch not in newest:
            yield commit
        elif batch in counted and ("replaces" not in commit or batch not in with_own_place):
            yield counted.pop(batch)


def _in_order(found: list[tuple[str, datetime]]) -> list[str]:
    by_incarnation: dict[str, list[tuple[int, datetime, str]]] = defaultdict(list)
    for path, stored_at in found:
        by_incarnation[path.split("/")[-2]].append((sequence_of(path), stored_at, path))
    every = sorted((sorted(commits) for commits in by_incarnation.values()), key=lambda commits: commits[0][1])
    return [path for commits in every for _, _, path in commits]


def _file(commit: dict[str, Any], file: dict[str, Any], folder: str) -> Committed:
    path = file["path"]
    is_elsewhere = "://" in path
    return (
        None if is_elsewhere else _batch_of(path),
        commit["number"],
        path if is_elsewhere else f"{folder}/{path}",
        file["bytes"],
        file["rows"],
        tuple(file["partition"].items()),
    )


def _batch_in(commit: dict[str, Any]) -> str | None:
    """The batch whose files a commit has; None where it has none, or files that no delivery staged."""
    if "replaces" in commit:
        batch: str = commit["replaces"]["batch_id"]
        return batch
    return next((found for each in commit["files"] if (found := _batch_of(each["path"]))), None)


def _batch_of(path: str) -> str | None:
    """The batch whose delivery staged a file, `data/<batch id>-<token>/...`."""
    return next((batch for part in path.split("/")[:2] if (batch := batch_staged_as(part))), None)
