"""Explain a row of a result by the rows of the tables that are in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.columns import int64_values, one_chunk
from runtime.errors import AnalysisError
from runtime.plan.simulated import SimulatedTable
from runtime.refusal import Refusal, tried
from runtime.simulator.delays import arrivals_of, counted_rows
from runtime.simulator.origins import Origin, origin_of, result_rows
from runtime.simulator.tables import TableRows
from runtime.spec.figures import count_text, wall_clock_text
from runtime.spec.stream import LATE_ROW
from sqlwin.execution.simulated import ARRIVAL, PARTITION, Simulated, StoredRows

# Time between the micro-batches of a stream over the rows
_EVERY_US = 1_000_000
# Lines per list
_MAX_LINES = 20


@dataclass(frozen=True)
class _Read:
    """Rows of a table, with the columns that say where they are stored and when they arrived."""

    rows: pa.Table
    metadata: tuple[str, ...]

    @property
    def places(self) -> list[str]:
        """The columns that say where a row is stored."""
        return [name for name in self.metadata if name != ARRIVAL]


@dataclass(frozen=True)
class _Given:
    """Tables of a query.

    Attributes:
        rows: Rows as they are stored, by name of the table.
        tables: The rows with their numbers.
        lateness_us: How long after their end windows of a stream accept rows.
    """

    rows: Mapping[str, _Read]
    tables: Mapping[str, TableRows]
    lateness_us: int


def explain_row(simulated: Simulated | Refusal, stored: StoredRows, *, lists_rows: bool) -> str:
    """Return the explanation of a query's only row.

    Args:
        simulated: The query, or why its rows cannot be traced.
        stored: Reads its tables.
        lists_rows: Whether to list the rows.

    Raises:
        AnalysisError: The query has no row or several, or its row cannot be traced.
        SqlwinError: A table cannot be read.
    """
    if isinstance(simulated, Refusal):
        raise _untraceable(simulated)
    query = simulated.query
    rows = {table.name: _read(table, stored) for table in query.tables}
    tables: dict[str, TableRows] = {}
    first = 0
    for table in query.tables:
        tables[table.name] = TableRows(table, rows[table.name].rows, first)
        first += len(tables[table.name].numbers)
    result = tried(result_rows, query, tables)
    if isinstance(result, Refusal):
        raise _untraceable(result)
    if len(result) != 1:
        raise AnalysisError(
            f"the query returns {count_text(len(result), 'rows')}, and EXPLAIN ROW explains one",
            hint="for example EXPLAIN ROW SELECT * FROM (...) WHERE window_end = ... AND k = ...",
        )
    row = result.drop_columns([LATE_ROW]).to_pylist()[0]
    origin = tried(origin_of, query, tables, result.column(LATE_ROW)[0].as_py())
    if isinstance(origin, Refusal):
        raise _untraceable(origin)
    given = _Given(rows, tables, simulated.options.allowed_lateness_us)
    return "\n".join(("== Row ==", _values(row), *_lines(origin, given, lists_rows=lists_rows)))


def _untraceable(refusal: Refusal) -> AnalysisError:
    return AnalysisError(f"the rows of this query cannot be traced: {refusal}")


def _read(table: SimulatedTable, stored: StoredRows) -> _Read:
    """Return all rows of a table."""
    metadata = stored.metadata(table)
    return _Read(stored.read(table, {}, metadata), tuple(metadata))


def _lines(origin: Origin, given: _Given, *, lists_rows: bool) -> Iterator[str]:
    """Yield the lines about the windows of an origin and their rows, outermost first."""
    yield ""
    yield "== Windows =="
    windows = zip(origin.keys, origin.bounds_us, strict=True)
    yield from _some([_window(keys, bounds) for keys, bounds in windows])
    yield from _some(
        [
            f"slice that ends at {wall_clock_text(end)}: {count_text(n_rows, 'rows')}"
            for end, n_rows in origin.slices
        ]
    )
    if origin.below is not None:
        yield f"they have {count_text(len(origin.numbers), 'rows')}, which are windows:"
        yield from _lines(origin.below, given, lists_rows=lists_rows)
        return
    read, table = given.rows[origin.source], given.tables[origin.source]
    yield ""
    yield "== Rows =="
    text = f"{len(origin.numbers):,} of {count_text(len(read.rows), 'rows')} of {origin.source}"
    if None not in origin.bounds_us:
        times = (wall_clock_text(int(bound(origin.times_us))) for bound in (np.min, np.max))
        text += ", with times from {} to {}".format(*times)
    yield text
    yield from _some(_stored(read, _places(origin, table)))
    if len(origin.filtered):
        n_filtered = count_text(len(origin.filtered), "rows")
        yield f"with these keys and times, but removed by filters: {n_filtered}"
    n_late = _late(origin, given)
    if n_late:
        yield (
            f"late: a stream that reads the rows as they arrive, every second, misses "
            f"{count_text(n_late, 'rows')}"
        )
    if lists_rows:
        found = read.rows.select(table.rows.schema.names[:-1]).take(_places(origin, table))
        yield from ("", f"== Rows of {origin.source} ==", *map(_values, found.to_pylist()))
    n_untimed = sum(time is None for time in table.times_us) if table.table.time else 0
    if n_untimed:
        yield f"without a time, so in no window: {count_text(n_untimed, 'rows')} of {origin.source}"


def _late(origin: Origin, given: _Given) -> int:
    """Return how many rows of the only window a stream misses; 0 if that is not known."""
    read, table = given.rows[origin.source], given.tables[origin.source]
    if ARRIVAL not in read.metadata or None in origin.bounds_us or len(origin.bounds_us) != 1:
        return 0
    zone = origin.operator.step.input.mode.time_zone
    arrived_us = int64_values(one_chunk(read.rows.column(ARRIVAL)).cast(pa.timestamp("us", "UTC")))
    splits = read.rows.column(PARTITION) if PARTITION in read.metadata else None
    arrivals = arrivals_of(table.table, read.rows, arrived_us, splits, _EVERY_US, zone)
    counted = tried(counted_rows, origin.operator, arrivals, given.lateness_us)
    if isinstance(counted, Refusal):
        return 0
    ((_, end_us),) = (bounds for bounds in origin.bounds_us if bounds is not None)
    late = arrivals.place[counted.missing(end_us, table.table.delay_us)]
    return len(np.intersect1d(late, origin.numbers - table.numbers.start))


def _window(keys: Mapping[str, object], bounds: tuple[int, int] | None) -> str:
    text = _values(keys) or "all rows"
    if bounds is None:
        return text
    return "{}: from {} to {}".format(text, *map(wall_clock_text, bounds))


def _places(origin: Origin, table: TableRows) -> pa.Array:
    """Return the places of an origin's rows among the rows of its table."""
    return pa.array(origin.numbers - table.numbers.start)


def _stored(read: _Read, places: pa.Array) -> list[str]:
    """Return a line for each file or partition with rows."""
    if not read.places:
        return []
    found = read.rows.select(read.places).take(places)
    group, *others = read.places
    by_group = found.group_by(group, use_threads=False)
    bounds = [(other, function) for other in others for function in ("min", "max")]
    totals = by_group.aggregate([(group, "count"), *bounds])
    lines = []
    for one in totals.sort_by(group).to_pylist():
        line = f"{group[1:]} {_shown(one[group])}: {count_text(one[f'{group}_count'], 'rows')}"
        for other in others:
            line += f", {other[1:]}s {one[f'{other}_min']} to {one[f'{other}_max']}"
        lines.append(line)
    return lines


def _shown(place: object) -> object:
    """Return a file of this machine as people write it, below the working directory if it is."""
    if not isinstance(place, str) or not place.startswith("file:"):
        return place
    path = Path(place.removeprefix("file:"))
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _some(lines: list[str]) -> Iterator[str]:
    """Yield the first lines, and how many follow."""
    yield from lines[:_MAX_LINES]
    if len(lines) > _MAX_LINES:
        yield f"and {len(lines) - _MAX_LINES:,} more"


def _values(row: Mapping[str, object]) -> str:
    return ", ".join(
        f"{name} = {'NULL' if value is None else value}" for name, value in row.items()
    )
