"""SVG charts of results for notebooks, for light and dark pages."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from runtime.spec.figures import timestamp_text
from sqlwin.display.charts.data import BarChart, LineChart, charts_of, number_ticks, time_ticks

_WIDTH, _HEIGHT = 720, 260
# Left, top, right, bottom: space for labels of the axes
_MARGINS = (64, 26, 16, 24)
_BAR_HEIGHT = 22
_CHARACTER = 6.4  # approximate width of a letter
_LABEL_CHARACTERS = 24
# Equal lightness, visible on white and black; distinct without red and green
_COLORS = (
    "#3b82d0", "#e08214", "#2a9d6f", "#d1495b", "#9467bd", "#00a3b4", "#8c8c8c", "#b8960b",
)  # fmt: skip
# Maximum points that show their value on hover
_MAX_MARKS = 600


def svg_charts(columns: Sequence[str], batches: Iterable[pa.RecordBatch]) -> str:
    """Return `charts_of` the rows as HTML, with a drawing per numeric column.

    Raises:
        AnalysisError: The result has no numeric column.
    """
    charts = charts_of(columns, batches)
    drawings = [
        _line_drawing(chart) if isinstance(chart, LineChart) else _bar_drawing(chart)
        for chart in charts.charts
    ]
    notes = [_note(note) for note in charts.notes]
    return "".join([*drawings, *notes])


def _line_drawing(chart: LineChart) -> str:
    if not chart.lines:
        return _note(f"{chart.title}: only NULL")
    left, top, right, bottom = _MARGINS
    times, values = zip(*chart.points, strict=True)
    legend = _legend(list(chart.lines), left) if set(chart.lines) != {""} else []
    top += 18 * bool(legend)
    places, texts = number_ticks(min(values), max(values), 5)
    x = _scale(min(times), max(times), left, _WIDTH - right)
    y = _scale(min(*values, *places), max(*values, *places), _HEIGHT - bottom, top)
    parts = [_title(chart.title), *legend]
    for place, text in zip(places, texts, strict=True):
        parts.append(_rule(left, y(place), _WIDTH - right, y(place)))
        parts.append(_text(left - 6, y(place) + 4, text, "end"))
    for place, text in zip(*time_ticks(min(times), max(times), 6), strict=True):
        anchor = "end" if x(place) > _WIDTH - right - 40 else "middle"
        parts.append(_text(x(place), _HEIGHT - 6, text, anchor))
    has_marks = len(times) <= _MAX_MARKS
    for color, (key, line) in zip(_COLORS, chart.lines.items(), strict=False):
        points = " ".join(f"{x(t):.1f},{y(v):.1f}" for t, v in line)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.8" '
            'stroke-linejoin="round"/>'
        )
        for t, v in line if has_marks else ():
            label = ", ".join(filter(None, [key, f"{_clock(t)}: {v:,.6g}"]))
            parts.append(
                f'<circle cx="{x(t):.1f}" cy="{y(v):.1f}" r="3" fill="{color}">'
                f"<title>{html.escape(label)}</title></circle>"
            )
    return _drawing(parts, _HEIGHT, chart.title) + _note(chart.note)


def _bar_drawing(chart: BarChart) -> str:
    longest = max((len(key) for key in chart.bars), default=0)
    left = min(longest, _LABEL_CHARACTERS) * _CHARACTER + 20
    x = _scale(chart.low, chart.high, left, _WIDTH - 90)
    parts = [_title(chart.title)]
    for i, (key, total) in enumerate(chart.bars.items()):
        top = 30 + i * _BAR_HEIGHT
        begin, end = sorted((x(0.0), x(total)))
        parts.append(
            f'<rect x="{begin:.1f}" y="{top}" width="{max(1.0, end - begin):.1f}" '
            f'height="{_BAR_HEIGHT - 6}" fill="{_COLORS[0]}"/>'
        )
        parts.append(_text(left - 6, top + 12, _cut(key), "end"))
        parts.append(_text(end + 6, top + 12, f"{total:,.6g}"))
    drawing = _drawing(parts, 36 + len(chart.bars) * _BAR_HEIGHT, chart.title)
    return drawing + _note(chart.note)


def _scale(low: float, high: float, begin: float, end: float) -> Callable[[float], float]:
    """Return a function from numbers in [low, high] to positions in [begin, end]."""
    factor = (end - begin) / (high - low) if high > low else 0.0
    return lambda value: begin + (value - low) * factor


def _legend(keys: Sequence[str], left: float) -> list[str]:
    parts = []
    for color, key in zip(_COLORS, keys, strict=False):
        parts.append(f'<rect x="{left:.0f}" y="27" width="10" height="10" fill="{color}"/>')
        parts.append(_text(left + 14, 36, _cut(key or "NULL")))
        left += 26 + min(len(key), _LABEL_CHARACTERS) * _CHARACTER + 12
    return parts


def _cut(text: str) -> str:
    return text if len(text) <= _LABEL_CHARACTERS else text[: _LABEL_CHARACTERS - 1] + "…"


def _title(text: str) -> str:
    return (
        f'<text x="{_WIDTH / 2:.0f}" y="16" text-anchor="middle" font-weight="600">'
        f"{html.escape(text)}</text>"
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        'stroke="currentColor" stroke-opacity=".18"/>'
    )


def _drawing(parts: Sequence[str], height: float, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" '
        f'role="img" aria-label="{html.escape(title)}" '
        f'style="width:100%;max-width:{_WIDTH}px;display:block;margin:4px 0;'
        'font:11px system-ui,sans-serif" fill="currentColor">'
        f"{''.join(parts)}</svg>"
    )


def _note(text: str) -> str:
    return f'<div style="opacity:.65;font-size:12px">{html.escape(text)}</div>' if text else ""


def _clock(seconds: float) -> str:
    return timestamp_text(math.floor(seconds) * 1_000_000).removesuffix(".000000")
