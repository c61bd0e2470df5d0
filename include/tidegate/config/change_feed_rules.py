"""The rules between the properties that make a change feed, and those that it can't be combined with."""

from typing import Final

from tidegate.config.findings import Findings
from tidegate.config.property_table import with_defaults
from tidegate.config.sections import Values

_KEYS: Final = "processing.keys"
_SEQUENCE: Final = "processing.sequence-by"
_PROPERTIES: Final = ("keys", "sequence-by", "delete-when")


def check_change_feed(given: Values, findings: Findings) -> None:
    """Keys and sequence-by go together, into tables alone; nothing is concluded from a wrong value."""
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
    if given.get("schema-evolution") == "rescue":
        text = (
            f"processing.schema-evolution rescue can't be combined with {_KEYS}: keys and sequence have to fit into "
            "the table; write fail or add-columns"
        )
        findings.add("processing.schema-evolution", text, "refused", "rescue")
