"""What was measured of all contenders, as tables and as the panels of a picture."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from contenders.registry import ALL, CONSUME, LAND, LAND_TWO, Contender
from contest import Measured
from page import Table
from ratios import MEMORY_TARGET_MIB, TARGETS, Ratio
from records import Topic

_MISSED = "*"
SUMMARY = "Thousands of records per second by the clock/per CPU second"
HEADINGS = ["tool", "records/s", "slowest to fastest", "records per CPU s", "peak memory", "bytes per record"]


@dataclass(frozen=True)
class Found:
    """The measurements of one topic, by the contender's name, and why others weren't measured."""

    topic: Topic
    rounds: dict[str, list[Measured]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def comparison(contenders: Sequence[Contender], found: Sequence[Found]) -> list[Table]:
    """A table for each topic, the ratios with their targets, and what each contender does."""
    return [
        *(_topic(contenders, one) for one in found),
        _ratios(found),
        Table(
            "What each of them does and writes",
            ["tool", "how", "columns"],
            [[one.name, one.how, one.writes] for one in contenders],
        ),
    ]


def summary(contenders: Sequence[Contender], found: Sequence[Found]) -> list[Table]:
    """What the page shows beside the picture: each tool's rates on every other topic, consume's at its best."""
    topics = found[1::2]
    shown = [each for each in contenders if each is not CONSUME]
    rows = [[each.name, *(_rates(one.rounds.get(each.name, ())) for one in topics)] for each in shown]
    return [Table(SUMMARY, ["tool", *(one.topic.title for one in topics)], rows)]


def panels(found: Sequence[Found]) -> list[dict[str, Any]]:
    """For each topic the bars of all who were measured: median, slowest and fastest records per second."""
    return [
        {
            "title": one.topic.title,
            "bars": [
                {
                    "name": contender.name,
                    "rates": [measured.rate for measured in one.rounds[contender.name]],
                    "is_ours": contender in (LAND, LAND_TWO),
                }
                for contender in ALL
                if contender.name in one.rounds
            ],
        }
        for one in found
    ]


def _topic(contenders: Sequence[Contender], found: Found) -> Table:
    rows = [
        _row(one.name, found.rounds[one.name])
        if one.name in found.rounds
        else [one.name, f"not measured: {found.missing[one.name]}", *[""] * (len(HEADINGS) - 2)]
        for one in contenders
    ]
    return Table(f"{found.topic.records:,} values of {found.topic.title}", HEADINGS, rows)


def _row(name: str, measured: Sequence[Measured]) -> list[str]:
    rates = [one.rate for one in measured]
    size = measured[0].bytes / measured[0].records
    return [
        name,
        f"{median(rates):,.0f}",
        f"{min(rates):,.0f} to {max(rates):,.0f}",
        f"{median(one.cpu_rate for one in measured):,.0f}",
        f"{max(one.peak_mib for one in measured):,.0f} MiB",
        f"{size:,.0f}" if size else "",
    ]


def _rates(measured: Sequence[Measured]) -> str:
    rates = [median(rates) for rates in ([one.rate for one in measured], [one.cpu_rate for one in measured]) if rates]
    return "/".join(f"{rate / 1_000:,.0f}" for rate in rates)


def _ratios(found: Sequence[Found]) -> Table:
    return Table(
        "Ratios, medians of the rounds' own (*: misses its target)",
        ["Tidegate against the others", "target", *(one.topic.title for one in found)],
        [_ratio(ratio, found) for ratio in TARGETS] + [_memory(found)],
    )


def _ratio(ratio: Ratio, found: Sequence[Found]) -> list[str]:
    cells = []
    for one in found:
        reached = ratio.reached(one.rounds) if ratio.holds_on(one.topic) else None
        missed = reached is not None and ratio.target is not None and reached < ratio.target
        cells.append("" if reached is None else f"{reached:.2f}{_MISSED if missed else ''}")
    return [ratio.name, f"≥ {ratio.target:.2f}", *cells]


def _memory(found: Sequence[Found]) -> list[str]:
    cells = []
    for one in found:
        peaks = [measured.peak_mib for who in (LAND, LAND_TWO) for measured in one.rounds.get(who.name, ())]
        missed = peaks and max(peaks) >= MEMORY_TARGET_MIB
        cells.append(f"{max(peaks):.0f} MiB{_MISSED if missed else ''}" if peaks else "")
    return ["peak memory of a member", f"< {MEMORY_TARGET_MIB:.0f} MiB", *cells]
