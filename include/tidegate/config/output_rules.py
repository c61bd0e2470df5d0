"""The rules between a format, its output and what the format needs."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from tidegate.config.extras import missing
from tidegate.config.findings import Findings
from tidegate.config.property_table import PROCESSING, with_defaults
from tidegate.config.sections import Values
from tidegate.config.settings import scheme
from tidegate.model.output_uri import OBJECT_STORES, TABLE_NAME, OutputFormat

_FORMAT: Final = "processing.format"
_OUTPUT: Final = "processing.output"
_EVOLUTION: Final = "processing.schema-evolution"
_LEAST_PARTS: Final = 3
_ONLY_FOR_TABLES: Final = tuple(each for each in OBJECT_STORES if each != "s3")


def check_output(given: Values, findings: Findings) -> None:
    """Each format has outputs of its own, and needs a package of its own; nothing is concluded from a wrong one."""
    if _FORMAT in findings.faulty:
        return
    format_: OutputFormat = with_defaults("processing", given)["format"]
    if format_ == "parquet" and "schema-evolution" in given:
        text = (
            f"{_EVOLUTION} is for tables, and {_FORMAT} is parquet, where each batch's files have a schema of their "
            "own: remove it, or choose a table's format"
        )
        findings.add(_EVOLUTION, text, "refused", given["schema-evolution"])
    if "output" not in given:
        return
    _CHECKS[format_](given["output"], findings)
    extra = _extra(format_, given["output"])
    if extra is not None and (lacking := missing(extra)):
        path, value = (_OUTPUT, given["output"]) if format_ == "parquet" else (_FORMAT, format_)
        findings.add(path, f"{path} {value} needs {lacking}", "not-installed", value)


def wrong_output(format_: OutputFormat, output: str) -> str | None:
    """What keeps a text from being the output of a subscription of this format, in words; None if nothing does."""
    if wrong := PROCESSING["output"].type.validate(output):
        return f"{_OUTPUT} {wrong}"
    findings = Findings("")
    check_output({"format": format_, "output": output}, findings)
    return next((each.message for each in findings.problems if each.severity == "error"), None)


def _extra(format_: OutputFormat, output: str) -> str | None:
    """What of the distribution's extras an output needs."""
    if format_ != "parquet":
        return format_
    return "object-stores" if scheme(output) in OBJECT_STORES else None


def _check_folder(output: str, findings: Findings) -> None:
    if re.fullmatch(TABLE_NAME, output):
        text = (
            f"{_OUTPUT} {output} is a folder, because {_FORMAT} is parquet: for the table of a catalog write format: "
            f"iceberg, else ./{output}"
        )
        findings.add(_OUTPUT, text, "looks-like-a-table", output, "warning")
    elif (kind := scheme(output)) in _ONLY_FOR_TABLES:
        text = (
            f"{_OUTPUT} of format parquet can't be on {kind}, where Tidegate can't publish a batch's files at once: "
            "write s3://bucket/folder, or format: delta"
        )
        findings.add(_OUTPUT, text, "refused", output)


def _check_delta(output: str, findings: Findings) -> None:
    if re.fullmatch(TABLE_NAME, output):
        text = (
            f"{_OUTPUT} of format delta is a folder, not the table of a catalog: {output}; write its path, as "
            f"./{output}, or format: iceberg"
        )
        findings.add(_OUTPUT, text, "refused", output)
    elif scheme(output) == "hdfs":
        text = (
            f"{_OUTPUT} of format delta can't be on hdfs, where Tidegate has never tried a Delta table: write a path, "
            "or a URI of an object store"
        )
        findings.add(_OUTPUT, text, "refused", output)
    elif "%" in output:
        text = (
            f"{_OUTPUT} of format delta can't have % in its path: {output}, which delta-rs takes for an encoding; name "
            "another place, without %"
        )
        findings.add(_OUTPUT, text, "refused", output)
    elif "#" in output and scheme(output) in OBJECT_STORES:
        text = (
            f"{_OUTPUT} of format delta can't have # in its URI: {output}, of which delta-rs takes what is before it; "
            "name another place, without #"
        )
        findings.add(_OUTPUT, text, "refused", output)


def _check_iceberg(output: str, findings: Findings) -> None:
    if wrong := _wrong_table(output):
        text = (
            f"{_OUTPUT} of format iceberg must be catalog.namespace.table, where catalog is the id of an Airflow "
            f"connection: {output} {wrong}"
        )
        findings.add(_OUTPUT, text, "refused", output)


def _wrong_table(output: str) -> str | None:
    """What keeps a text from being a table of a catalog, to be read after it; None if nothing does."""
    if re.fullmatch(TABLE_NAME, output):
        return None
    if "/" in output or output.startswith("~") or scheme(output) is not None:
        return "is a place; where the table's files lie, the catalog knows"
    parts = output.split(".")
    if "" in parts:
        return "has an empty name between its dots"
    if len(parts) < _LEAST_PARTS:
        return f"has {len(parts)} of at least {_LEAST_PARTS} names"
    odd = next(part for part in parts if not re.fullmatch(r"[\w-]+", part))
    return f"has the name {odd!r}, and names have letters, digits, _ and - alone"


_CHECKS: Final[Mapping[OutputFormat, Callable[[str, Findings], None]]] = {
    "parquet": _check_folder,
    "delta": _check_delta,
    "iceberg": _check_iceberg,
}
