"""Data of charts: lines by key over time, or bars if there is a single time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from runtime.errors import AnalysisError
from runtime.spec.figures import timestamp_text
from sqlwin.display.formats import first_rows
from sqlwin.display.notation import display_texts, is_number

# More lines, bars and charts are hard to distinguish
MAX_LINES = 8
MAX_BARS = 30
MAX_CHARTS = 4
# Maximum rows in a chart, which has no room for more points
MAX_ROWS = 200_000

_TIME_NAMES = ("window_end", "window_start", "window_time")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class LineChart:
    """A numeric column over time.

    Attributes:
        title: Name of the column.
        lines: Points of each key (seconds since 1970 and value), ordered by time. Keys with the
            largest values, ordered.
        note: How many keys have no line. Empty: all have one.
    """

    title: str
    lines: dict[str, list[tuple[float, float]]]
    note: str

    @property
    def points(self) -> list[tuple[float, float]]:
        """Return all points."""
        return [point for line in self.lines.values() for point in line]


@dataclass(frozen=True)
class BarChart:
    """A numeric column by key.

    Attributes:
        title: Name of the column.
        bars: Totals by key, largest first.
        low: Start of the axis, at most 0.
        high: End of the axis, at least 0.
        note: How many keys have no bar. Empty: all have one.
    """

    title: str
    bars: dict[str, float]
    low: float
    high: float
    note: str


@dataclass(frozen=True)
class Charts:
    """The charts of a result.

    Attributes:
        charts: One chart per numeric column, at most `MAX_CHARTS`.
        n_rows: Number of rows drawn.
        notes: Notes on columns and rows that are not drawn.
    """

    charts: tuple[LineChart | BarChart, ...]
    n_rows: int
    notes: tuple[str, ...] = ()


def charts_of(columns: Sequence[str], batches: Iterable[pa.RecordBatch]) -> Charts:
    """Return the charts of rows: each numeric column over time, with a line per key.

    Time is `window_end`, else another window column, else the first timestamp. Columns that are
    neither time nor numbers form the key. Rows with a single time, or without any, become bars.
    NULL and NaN leave no point.

    Args:
        columns: Names of the columns.
        batches: Rows of the result. At most `MAX_ROWS` of them are drawn.

    Raises:
        AnalysisError: The result has no numeric column.
    """
    rows = first_rows(batches, MAX_ROWS)
    if rows is None or not rows.num_rows:
        return Charts((), 0, ("no rows to draw",))
    # names may repeat, so use positions
    table = rows.slice(0, MAX_ROWS).rename_columns(list(columns))
    time = _time_column(table)
    numbers = [i for i, field in enumerate(table.schema) if is_number(field.type)]
    if not numbers:
        raise AnalysisError(
            f"no numeric column to draw: {', '.join(columns)}",
            hint="a chart needs numbers, and optionally a time such as window_end and keys",
        )
    bounds = {i for i, name in enumerate(columns) if name.lower() in _TIME_NAMES}
    others = [i for i in range(len(columns)) if i not in {*numbers, *bounds, time}]
    keys = _keys(table, others)
    times = None if time is None else _seconds(table.column(time))
    distinct = set() if times is None else {t for t in times if t is not None}
    charts: list[LineChart | BarChart] = []
    for i in numbers[:MAX_CHARTS]:
        values = [_point(v) for v in table.column(i).to_pylist()]
        if times is not None and len(distinct) > 1:
            charts.append(_line_chart(columns[i], times, values, keys))
        else:
            charts.append(_bar_chart(columns[i], values, keys))
    notes = []
    if left_out := [columns[i] for i in numbers[MAX_CHARTS:]]:
        notes.append(f"not drawn: {', '.join(left_out)}")
    if rows.num_rows > MAX_ROWS:
        notes.append(f"only the first {MAX_ROWS:,} rows are drawn")
    return Charts(tuple(charts), int(table.num_rows), tuple(notes))


def _line_chart(
    title: str,
    times: Sequence[float | None],
    values: Sequence[float | None],
    keys: Sequence[str],
) -> LineChart:
    lines: dict[str, list[tuple[float, float]]] = {}
    for t, value, key in zip(times, values, keys, strict=True):
        if t is not None and value is not None:
            lines.setdefault(key, []).append((t, value))
    largest = sorted(lines, key=lambda key: -sum(abs(v) for _, v in lines[key]))[:MAX_LINES]
    drawn = {key: sorted(lines[key]) for key in sorted(largest)}
    return LineChart(title, drawn, _note(len(lines) - len(largest), "more keys"))


def _bar_chart(title: str, values: Sequence[float | None], keys: Sequence[str]) -> BarChart:
    totals: dict[str, float] = {}
    for value, key in zip(values, keys, strict=True):
        if value is not None:
            totals[key] = totals.get(key, 0.0) + value
    largest = sorted(totals, key=lambda key: -abs(totals[key]))[:MAX_BARS]
    return BarChart(
        title,
        {key: totals[key] for key in largest},
        min(0.0, *totals.values()) if totals else 0.0,
        max(0.0, *totals.values()) if totals else 0.0,
        _note(len(totals) - len(largest), "more"),
    )


def _note(count: int, what: str) -> str:
    return f"and {count:,} {what} with smaller values" if count else ""


def _time_column(table: pa.Table) -> int | None:
    names = [name.lower() for name in table.column_names]
    stamps = [i for i, field in enumerate(table.schema) if pa.types.is_timestamp(field.type)]
    for time_name in _TIME_NAMES:
        for i in stamps:
            if names[i] == time_name:
                return i
    return stamps[0] if stamps else None


def _seconds(column: pa.ChunkedArray) -> list[float | None]:
    """Return seconds since 1970 of the local time that the column shows."""
    if column.type.tz is not None:
        column = pc.local_timestamp(column)
    micros = column.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    return [None if us is None else us / 1e6 for us in micros]


def _keys(table: pa.Table, places: Sequence[int]) -> list[str]:
    if not places:
        return [""] * table.num_rows
    texts = [display_texts(pa.concat_arrays(table.column(i).chunks)).to_pylist() for i in places]
    rows = zip(*texts, strict=True)
    return [", ".join("NULL" if t is None else str(t) for t in row) for row in rows]


def _point(value: object) -> float | None:
    if value is None or isinstance(value, timedelta):
        return None
    number = float(value)  # type: ignore[arg-type]
    return number if math.isfinite(number) else None


_TICK_SECONDS = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200),
    *(86400 * n for n in (1, 2, 7, 14, 28, 56, 91, 182, 364)),
)


def time_ticks(first: float, last: float, most: int) -> tuple[list[float], list[str]]:
    """Return positions on a time axis, at round times, and their labels.

    Args:
        first: Start, in seconds since 1970.
        last: End, in seconds since 1970.
        most: Maximum number of positions.
    """
    fitting = (step for step in _TICK_SECONDS if (last - first) / step < most)
    step = next(fitting, math.ceil((last - first) / most / 86400) * 86400)
    places = [float(n * step) for n in range(math.ceil(first / step), math.floor(last / step) + 1)]
    if not places:
        places = [first]
    day = "%Y-%m-%d" if step >= 86400 else "%m-%d %H:%M"
    form = day if step >= 86400 or last - first > 86400 else "%H:%M" if step >= 60 else "%H:%M:%S"
    return places, [_tick_text(place, form) for place in places]


def _tick_text(seconds: float, form: str) -> str:
    try:
        return (_EPOCH + timedelta(seconds=seconds)).strftime(form)
    except OverflowError:  # Python's dates cover the years 1 to 9999
        return timestamp_text(int(seconds) * 1_000_000).removesuffix(".000000")


def number_ticks(low: float, high: float, most: int) -> tuple[list[float], list[str]]:
    """Return positions on a number axis, at round numbers, and their labels.

    Args:
        low: Smallest number.
        high: Largest number.
        most: Maximum number of intervals between positions.

    Example:
        >>> number_ticks(3532, 10457, 6)[1]
        ['4,000', '6,000', '8,000', '10,000']
        >>> number_ticks(0.13, 0.14, 3)[1]
        ['0.130', '0.135', '0.140']
        >>> number_ticks(7, 7, 3)[1]
        ['7']
    """
    least = (high - low) / most
    # for smaller values, the powers of ten are beyond the range of floats
    if not 1e-300 < least < math.inf:
        return [low], [f"{low:,.6g}"]
    power = math.floor(math.log10(least))
    step = next(n for n in (1, 2, 5, 10) if n * 10.0**power >= least * (1 - 1e-9))
    # use integer multiples of the step, because adding up 0.1 is inexact
    scale = 10.0**-power / step
    numbers = range(math.ceil(low * scale - 1e-9), math.floor(high * scale + 1e-9) + 1)
    places = [number / scale for number in numbers]
    decimals = max(0, -power - (step == 10))
    is_plain = max(abs(low), abs(high)) < 1e15 and decimals <= 9
    return places, [f"{p:,.{decimals}f}" if is_plain else f"{p:.6g}" for p in places]
