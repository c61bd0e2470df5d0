"""How folders of staged output are named, so that one that somebody else has made is told from ours."""

import re
from collections import defaultdict
from collections.abc import Iterable

_OURS = re.compile(r"(?P<batch>b[0-9a-f]{20})-[0-9a-f]{32}")
_OF_A_GENERATION = re.compile(r"(?P<batch>b[0-9a-f]{20})-g[0-9]+-[0-9a-f]{32}")
_SET_ASIDE = re.compile(rf"{_OURS.pattern}-[0-9a-f]{{8}}")


def staging_name(batch_id: str, token: str, generation: int) -> str:
    """The name of a delivery's staging folder; no run takes that of a later generation for one that it may remove."""
    return f"{batch_id}-{token}" if generation == 1 else f"{batch_id}-g{generation}-{token}"


def staged_batch(folder: str) -> str | None:
    """The batch of a delivery's staging folder, `<batch id>-<token>`, by its name; None for any other name."""
    found = _OURS.fullmatch(folder)
    return found and found["batch"]


def batch_staged_as(folder: str) -> str | None:
    """The batch of a folder that a delivery staged, also one of a later generation, `<batch id>-g<number>-<token>`."""
    found = _OURS.fullmatch(folder) or _OF_A_GENERATION.fullmatch(folder)
    return found and found["batch"]


def abandoned_batch(folder: str) -> str | None:
    """The batch of a staging folder that was set aside, `<batch id>-<token>-<8 digits>`; None for any other name."""
    found = _SET_ASIDE.fullmatch(folder)
    return found and found["batch"]


def folder_name(uri: str) -> str:
    """The name of a folder, by its URI or path."""
    return uri.rpartition("/")[2]


def staged_below(folder: str, names: Iterable[str]) -> dict[str, frozenset[str]]:
    """By batch, the URIs of deliveries' staging folders right below a folder; other names are left out."""
    found: dict[str, set[str]] = defaultdict(set)
    for name in names:
        if batch_id := staged_batch(name):
            found[batch_id].add(f"{folder}/{name}")
    return {batch_id: frozenset(uris) for batch_id, uris in found.items()}
