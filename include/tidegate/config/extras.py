"""Packages that only some definitions need: the extras of the distribution `tidegate`, and what each one brings."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

_MODULES: Mapping[str, tuple[str, ...]] = {
    "delta": ("deltalake",),
    "http": ("certifi", "minijinja", "pycurl"),
    "iceberg": ("pyiceberg",),
    "object-stores": ("obstore",),
    "protobuf": ("google.protobuf",),
    "registry": ("attrs", "authlib", "cachetools", "certifi", "httpx"),
}


@cache
def missing(extra: str) -> str | None:
    """What of an extra isn't installed here, and how it is; None if nothing. Nothing is imported."""
    absent = [module for module in _MODULES[extra] if not _is_installed(module)]
    if not absent:
        return None
    verb = "isn't" if len(absent) == 1 else "aren't"
    return f"{', '.join(absent)}, which {verb} installed here: pip install 'tidegate[{extra}]'"


@cache
def older_airflow(needed: tuple[int, int]) -> str | None:
    """The version of the Airflow that is installed here, if it is older than that; nothing is imported."""
    try:
        found = version("apache-airflow-core")
    except PackageNotFoundError:
        return None
    numbers = tuple(int(number) for number in re.findall(r"\d+", found)[:2])
    return found if numbers < needed else None


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # nor is the package that it would be in
        return False
