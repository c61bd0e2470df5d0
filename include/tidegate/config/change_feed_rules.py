"""The rules between the properties that make a change feed, and those that it can't be combined with."""

from typing import Final

from tidegate.config.findings import Findings
from tidegate.config.property_table import with_defaults
from tidegate.config.sections import Values
from tidegate.model.failure_policy import failure_policy

_KEYS: Final = "processing.keys"
_SEQUENCE: Final = "processing.sequence-by"
_FAILURE: Final = "failure-strategy"
_PROPERTIES: Final = ("keys", "sequence-by", "delete-when")


def check_change_feed(given: Values, top: Values, findings: Findings) -> None:
    """Keys and sequence-by go together, into tables alone; nothing is concluded from a wrong value.

    `given` is the section processing, `top` what stands beside it.
    """
    named = [name for name in _PROPERTIES if given.get(name)]
    if not named or any(f"processing.{name}" in findings.faulty for name in (*_PROPERTIES, "format")):
        return
    first = f"processing.{named[0]}"
    if with_defaults("processing", given)["format"] == "parquet":
        text = (
            f"{first} is for tables, and processing.format is parquet, where no row is replaced or deleted: remove it, "
            "or write format: delta or iceberg"
        )
        findings.add(first, text, "refused", given[named[0]])
    if not given.get("keys"):
        text = f"{first} is given without {_KEYS}: name the columns of the rows' key, or remove it"
        findings.add(first, text, "refused", given[named[0]])
        return
    if not given.get("sequence-by"):
        text = f"{_SEQUENCE} is missing: {_KEYS} needs the columns that say which change of a key is the latest"
        findings.add(_SEQUENCE, text, "required")
    if twice := sorted(set(given["keys"]) & set(given.get("sequence-by", ()))):
        text = f"{_SEQUENCE} names {', '.join(twice)}, which is of the key, and the same for all changes of one"
        findings.add(_SEQUENCE, text, "refused", given["sequence-by"])
    _warn_of_offsets(given, top, findings)
    if given.get("schema-evolution") == "rescue":
        text = (
            f"processing.schema-evolution rescue can't be combined with {_KEYS}: keys and sequence have to fit into "
            "the table; write fail or add-columns"
        )
        findings.add("processing.schema-evolution", text, "refused", "rescue")


def _warn_of_offsets(given: Values, top: Values, findings: Findings) -> None:
    """An offset orders the changes of a partition, and says nothing of what comes back from another topic."""
    failure = with_defaults("", top)[_FAILURE]
    if _FAILURE in findings.faulty or not failure_policy(failure).produces:
        return
    if next(iter(given.get("sequence-by") or ()), None) == "offset":
        text = (
            f"{_SEQUENCE} goes by offset, and {_FAILURE} {failure} sends records to other topics: one that comes back "
            "has another offset, by which it wins over newer changes of its key or loses against older ones; take the "
            "source's own order, as lsn or ts_ms"
        )
        findings.add(_SEQUENCE, text, "order-of-changes", given["sequence-by"], "warning")
