"""Explain a row of a result by the rows of the tables that are in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import BoolArray, int64_values, one_chunk
from runtime.compute.kernels.keys import encode_keys
from runtime.errors import AnalysisError
from runtime.plan.simulated import SimulatedTable
from runtime.refusal import Refusal, tried
from runtime.simulator.delays.aligned import CountedRows, arrivals_of
from runtime.simulator.delays.counted_rows import counted_rows
from runtime.simulator.origins import Origin, origins_of, result_rows
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


def explain_row(
    simulated: Simulated | Refusal,
    stored: StoredRows,
    picked: pa.Table | None,
    *,
    lists_rows: bool,
) -> str:
    """Return the explanation of a query's only row.

    Args:
        simulated: The query without LIMIT and OFFSET, or why its rows cannot be traced.
        stored: Reads its tables.
        picked: Rows that LIMIT and OFFSET pick. None without them.
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
    if picked is not None:
        result = _equal_rows(result, _only(picked)).slice(0, 1)
        if not len(result):
            raise _untraceable("its values differ from run to run, as sums of DOUBLE do")
    row = _only(result).drop_columns([LATE_ROW]).to_pylist()[0]
    origins = tried(origins_of, query, tables, result.column(LATE_ROW)[0].as_py())
    if isinstance(origins, Refusal):
        raise _untraceable(origins)
    given = _Given(rows, tables, simulated.options.allowed_lateness_us)
    lines = (line for one in origins for line in _lines(one, given, lists_rows=lists_rows))
    return "\n".join(("== Row ==", _values(row), *lines))


def _only(result: pa.Table) -> pa.Table:
    if len(result) != 1:
        raise AnalysisError(
            f"the query returns {count_text(len(result), 'rows')}, and EXPLAIN ROW explains one",
            hint="for example EXPLAIN ROW SELECT * FROM (...) WHERE window_end = ... AND k = ...",
        )
    return result


def _equal_rows(result: pa.Table, row: pa.Table) -> pa.Table:
    """Return the rows of a result that equal a row."""
    columns = zip(row.columns, result.drop_columns([LATE_ROW]).columns, strict=True)
    keys = [
        pa.chunked_array([*one.cast(column.type).chunks, *column.chunks]) for one, column in columns
    ]
    codes, _ = encode_keys(keys, 1 + len(result))
    return result.filter(pa.array(codes[1:] == codes[0]))


def _untraceable(reason: Refusal | str) -> AnalysisError:
    return AnalysisError(f"the rows of this query cannot be traced: {reason}")


def _read(table: SimulatedTable, stored: StoredRows) -> _Read:
    """Return all rows of a table."""
    metadata = stored.metadata(table)
    return _Read(stored.read(table, {}, metadata), tuple(metadata))


def _lines(origin: Origin, given: _Given, *, lists_rows: bool) -> Iterator[str]:
    """Yield the lines about the windows of an origin and their rows, outermost first."""
    if origin.keys:
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
    if origin.is_added:
        yield "added by FILL: no row is in it" + (", its values are from:" if origin.below else "")
    elif origin.below:
        yield f"they have {count_text(len(origin.numbers), 'rows')}, which are windows:"
    for below in origin.below:
        yield from _lines(below, given, lists_rows=lists_rows)
    for name, table in given.tables.items():
        is_of_table = np.isin(origin.numbers, np.array(table.numbers))
        if is_of_table.any():
            yield from _rows(origin, name, is_of_table, given, lists_rows=lists_rows)


def _rows(
    origin: Origin, name: str, is_of_table: BoolArray, given: _Given, *, lists_rows: bool
) -> Iterator[str]:
    """Yield the lines about the rows of a table.

    Args:
        origin: Windows.
        name: Table.
        is_of_table: Whether each row of the windows is of this table.
        given: Tables.
        lists_rows: Whether to list the rows.
    """
    read, table = given.rows[name], given.tables[name]
    numbers = origin.numbers[is_of_table]
    places = pa.array(np.unique(numbers) - table.numbers.start)
    yield ""
    yield "== Rows =="
    text = f"{len(places):,} of {count_text(len(read.rows), 'rows')} of {name}"
    if origin.bounds_us and None not in origin.bounds_us:
        times_us = origin.times_us[is_of_table]
        times = (wall_clock_text(int(bound(times_us))) for bound in (np.min, np.max))
        text += ", with times from {} to {}".format(*times)
    if len(places) < len(numbers):
        text += f", read {len(numbers):,} times in all"
    yield text
    yield from _some(_stored(read, places))
    found = table.rows.drop_columns([LATE_ROW]).take(places)
    n_filtered = int(np.isin(origin.filtered, np.array(table.numbers)).sum())
    n_late, n_repeated = _late(origin, name, given), _repeated(found)
    if n_filtered:
        yield (
            f"with these keys and times, but removed by filters: {count_text(n_filtered, 'rows')}"
        )
    if n_repeated:
        yield f"equal to a row before them in all columns: {count_text(n_repeated, 'rows')}"
    if n_late:
        yield (
            f"late: a stream that reads the rows as they arrive, every second, misses "
            f"{count_text(n_late, 'rows')}"
        )
    if lists_rows:
        yield from ("", f"== Rows of {name} ==", *map(_values, found.to_pylist()))
    n_untimed = sum(time is None for time in table.times_us) if table.table.time else 0
    if n_untimed:
        yield f"without a time, so in no window: {count_text(n_untimed, 'rows')} of {name}"


def _repeated(rows: pa.RecordBatch) -> int:
    """Return how many rows equal an earlier one."""
    keys = [pa.chunked_array([column]) for column in rows.columns]
    codes, _ = encode_keys(keys, rows.num_rows)
    return len(codes) - np.unique(codes).size


def _late(origin: Origin, name: str, given: _Given) -> int:
    """Return how many rows of the only window a stream misses; 0 if that is not known."""
    read, table = given.rows[name], given.tables[name]
    if ARRIVAL not in read.metadata or None in origin.bounds_us or len(origin.bounds_us) != 1:
        return 0
    if origin.operator is None:
        return 0
    zone = origin.operator.step.input.mode.time_zone
    arrived_us = int64_values(one_chunk(read.rows.column(ARRIVAL)).cast(pa.timestamp("us", "UTC")))
    splits = read.rows.column(PARTITION) if PARTITION in read.metadata else None
    arrivals = arrivals_of(table.table, read.rows, arrived_us, splits, _EVERY_US, zone)
    counted = tried(counted_rows, origin.operator, arrivals, given.lateness_us)
    if not isinstance(counted, CountedRows):
        return 0
    ((_, end_us),) = (bounds for bounds in origin.bounds_us if bounds is not None)
    late = arrivals.place[counted.missing(end_us, table.table.delay_us)]
    return len(np.intersect1d(late, origin.numbers - table.numbers.start))


def _window(keys: Mapping[str, object], bounds: tuple[int, int] | None) -> str:
    text = _values(keys) or "all rows"
    if bounds is None:
        return text
    return "{}: from {} to {}".format(text, *map(wall_clock_text, bounds))


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
