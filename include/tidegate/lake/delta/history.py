"""Whether a Delta table was taken back: by the RESTOREs in its log's history."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from tidegate.lake.delta.table import DeltaHandle, look_again
from tidegate.model.errors import UnavailableError


def is_taken_back(handle: DeltaHandle) -> bool:
    """Whether the table is as it was before the commit that its record came with. Raises as `content_version` does."""
    return handle.recorded is not None and content_version(handle) < handle.recorded


def content_version(handle: DeltaHandle) -> int:
    """The version that the table was last taken back to, if that lies before its record's commit; else the handle's.

    A RESTORE to a time counts as one to -1: the log doesn't say which version that was. Raises UnavailableError if
    commits expire each time that it looks, and else what delta-rs raises.
    """
    if handle.recorded is None or handle.version <= handle.recorded:
        return handle.version
    return _content(handle.version, _history(handle, handle.version - handle.recorded))


def _history(handle: DeltaHandle, commits: int) -> Iterable[Mapping[str, Any]]:
    """The newest commits first."""
    try:
        return look_again(partial(handle.table.history, commits))
    except FileNotFoundError as error:
        raise UnavailableError("the table's log changed while its history was read: try again later") from error


def _content(version: int, newest_first: Iterable[Mapping[str, Any]]) -> int:
    """The version whose files the table began with after its last RESTORE, through RESTOREs of RESTOREs."""
    for commit in newest_first:
        if commit["operation"] == "RESTORE" and commit["version"] <= version:
            version = _target(commit.get("operationParameters") or {})
    return version


def _target(parameters: Mapping[str, Any]) -> int:
    version = parameters.get("version")
    return -1 if version is None else int(version)
