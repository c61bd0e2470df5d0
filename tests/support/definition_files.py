"""Definitions as text, for tests."""

from pathlib import Path

from tidegate.config.reading import Reading

FLIGHTS = Path(__file__).parents[2] / "include/subscriptions/flights.yaml"

LEAST = """\
topics: [flights]
consumer: {group.id: g}
processing: {output: out}
"""


def told(reading: Reading) -> list[tuple[int, str, str]]:
    """The line, the property and the rule of each problem."""
    return [(each.line, each.property, each.rule) for each in reading.problems]
