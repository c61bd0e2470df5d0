"""Draws panels of bars or lines as SVG: `plot.py FILE`, a picture as JSON on its standard input; needs matplotlib."""

import json
import sys
from statistics import median
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

OURS, THEIRS = "#0b7285", "#adb5bd"
mpl.rcParams |= {"svg.hashsalt": "tidegate", "svg.fonttype": "none", "font.size": 9}


def draw(panels: list[dict[str, Any]], file: str) -> None:
    """Two panels in a row, each of bars or of lines."""
    rows = (len(panels) + 1) // 2
    figure = Figure(figsize=(11, 0.6 + 2.9 * rows), layout="constrained")
    for axes, panel in zip(figure.subplots(rows, 2, squeeze=False).flat, panels, strict=False):
        (_bars if "bars" in panel else _lines)(axes, panel)
    figure.savefig(file, metadata={"Date": None})


def _bars(axes: Axes, panel: dict[str, Any]) -> None:
    """A bar is the median of its rates, with a line from the slowest to the fastest."""
    bars = panel["bars"]
    names = [bar["name"] for bar in bars]
    middles = [median(bar["rates"]) for bar in bars]
    below = [middle - min(bar["rates"]) for middle, bar in zip(middles, bars, strict=True)]
    above = [max(bar["rates"]) - middle for middle, bar in zip(middles, bars, strict=True)]
    colours = [OURS if bar["is_ours"] else THEIRS for bar in bars]
    axes.barh(names, middles, xerr=(below, above), color=colours, error_kw={"elinewidth": 1})
    for y, (middle, more) in enumerate(zip(middles, above, strict=True)):
        axes.annotate(f"{middle:,.0f}", (middle + more, y), (3, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_title(panel["title"], loc="left", fontsize=10)
    axes.set_xlabel("records per second")
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)


def _lines(axes: Axes, panel: dict[str, Any]) -> None:
    """Seconds over a size, both in powers of ten: a line that rises as steeply as the dotted one is linear."""
    for line in panel["lines"]:
        sizes, seconds = zip(*line["points"], strict=True)
        axes.plot(sizes, seconds, marker="o", markersize=3, label=line["name"])
    points = [point for line in panel["lines"] for point in line["points"]]
    lowest, widest = min(seconds for _, seconds in points), max(size for size, _ in points)
    narrowest = min(size for size, _ in points)
    axes.plot([narrowest, widest], [lowest, lowest * widest / narrowest], color=THEIRS, linestyle=":", label="linear")
    axes.set(xscale="log", yscale="log", ylabel="seconds", xlabel=panel["title"])
    axes.set_ylim(lowest / 2, 2 * max(seconds for _, seconds in points))
    axes.set_title(f"by {panel['title']}", loc="left", fontsize=10)
    axes.legend(fontsize=7, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    draw(json.load(sys.stdin)["panels"], sys.argv[1])
