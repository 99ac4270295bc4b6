"""Draw the results: each peer's time as a multiple of sqlwin's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_NAMES = {
    "spark": "Spark, rows copied into windows",
    "duckdb": "DuckDB, rows copied into windows",
    "duckdb-slices": "DuckDB, slices written by hand",
    "polars": "Polars group_by_dynamic",
}
_GAP = 0.8  # space between two cases, in bars
_INCHES = 0.17  # a bar
_ROOM = 0.3  # space to the right of the longest bar, as a fraction of the axis


class Ratio(NamedTuple):
    """A peer's time divided by sqlwin's. `note` is printed next to the bar."""

    times: float
    note: str = ""


def save(ratios: Mapping[str, Mapping[str, Ratio]], title: str, path: Path) -> None:
    """Draw bars by case and peer on a logarithmic scale.

    Args:
        ratios: Ratios by case, then by peer.
        title: Title of the chart.
        path: SVG file to write.
    """
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
    cases = [case for case, peers in ratios.items() if peers]
    peers = [name for name in _NAMES if any(name in ratios[case] for case in cases)]
    rows: dict[str, list[tuple[float, Ratio]]] = {name: [] for name in peers}
    middles = []
    y = 0.0
    for case in cases:
        present = [name for name in peers if name in ratios[case]]
        for i, name in enumerate(present):
            rows[name].append((y + i, ratios[case][name]))
        middles.append(y + (len(present) - 1) / 2)
        y += len(present) + _GAP
    figure, axes = pyplot.subplots(figsize=(9, 1.3 + _INCHES * y))
    for name in peers:
        places, shown = zip(*rows[name], strict=True)
        # the axis begins at sqlwin's time; bars to the left are faster
        widths = [ratio.times - 1 for ratio in shown]
        bars = axes.barh(places, widths, 0.9, left=1, label=_NAMES[name])
        axes.bar_label(bars, [_text(ratio) for ratio in shown], padding=3, fontsize=8)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda times, _: f"{times:g} x")
    every = [ratio.times for peers in ratios.values() for ratio in peers.values()]
    least, most = min([1, *every]), max([1, *every])
    axes.set_xlim(least / 2.5, 2 * most * (most / least) ** _ROOM)  # texts need some room
    axes.set_yticks(middles, cases)
    axes.set_ylim(y - _GAP, -1)
    axes.set_xlabel("time as a multiple of sqlwin's (logarithmic)")
    figure.suptitle(title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower center", bbox_to_anchor=(0.3, 1))
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def _text(ratio: Ratio) -> str:
    times = f"{ratio.times:,.0f}" if ratio.times >= 10 else f"{ratio.times:.1f}"
    return f"{times} x{ratio.note}"
