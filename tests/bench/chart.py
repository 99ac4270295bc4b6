"""The results as a picture: how many times sqlwin's time the others took."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_NAMES = {
    "spark": "Spark, rows copied into windows",
    "duckdb": "DuckDB, rows copied into windows",
    "duckdb-slices": "DuckDB, slices written by hand",
    "polars": "Polars group_by_dynamic",
}
_BAR = 0.8


def save(ratios: Mapping[str, Mapping[str, float]], title: str, path: Path) -> None:
    """Draw bars by case and peer on a logarithmic scale.

    Args:
        ratios: by case, by peer: its time as a multiple of sqlwin's.
        title: what stands above.
        path: where the SVG goes.
    """
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
    cases = [case for case, peers in ratios.items() if peers]
    peers = [name for name in _NAMES if any(name in ratios[case] for case in cases)]
    height = _BAR / max(len(peers), 1)
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.28 * len(cases) * max(len(peers), 1)))
    for i, name in enumerate(peers):
        places = [y + (i - (len(peers) - 1) / 2) * height for y in range(len(cases))]
        times = [ratios[case].get(name, float("nan")) for case in cases]
        # from sqlwin's time on: to the left of it are those that took less
        bars = axes.barh(places, [t - 1 for t in times], height, left=1, label=_NAMES[name])
        texts = [f"{t:.1f} x" if t == t else "" for t in times]
        axes.bar_label(bars, texts, padding=3, fontsize=8)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.set_yticks(range(len(cases)), cases)
    axes.invert_yaxis()
    axes.set_xlabel("time as a multiple of sqlwin's (logarithmic)")
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="best")
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
