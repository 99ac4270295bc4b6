"""Rows of a query by definition: windows, groups, ranks and joins over lists of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa

from runtime.compute.arrow.evaluate import filter_mask
from runtime.compute.arrow.types import arrow_type
from runtime.definition.aggregates import result_of
from runtime.definition.gaps import rows_with_gaps_filled, rows_with_gaps_filled_on_stream
from runtime.definition.order import compare, compare_rows, key_of, sorted_places
from runtime.definition.wall_clock import wall_clock
from runtime.engines.local.execute import computed_batches, schema_of
from runtime.errors import ExecutionError
from runtime.plan.arrow_rows import (
    AsOfRows,
    FilledRows,
    GivenRows,
    InlineRows,
    JoinedRows,
    ProjectedRows,
    RangedRows,
    RankedRows,
    UnitedRows,
    WindowedRows,
)
from runtime.plan.definition import DefinedGroups, DefinedVersions
from runtime.plan.exchange import MergedWindows
from runtime.plan.nodes import PlanNode
from runtime.spec.expressions import FirstRows
from runtime.spec.filling import VersionJoining
from runtime.windows.times import WINDOW_TIME_LAG_US

# Maximum rows copied into windows and pairs of a join; more take minutes
_MAX_ROWS = 200_000
_INPUT = "$input"
_BOUND = pa.timestamp("us")


@dataclass(frozen=True)
class DefinedRows:
    """Rows of a relation.

    Attributes:
        schema: Columns.
        rows: Values of each row. Times are integers in the unit of their type.
    """

    schema: pa.Schema
    rows: Sequence[tuple[Any, ...]]

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        place = self.schema.get_field_index(name)
        return [row[place] for row in self.rows]

    def columns(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the values of some columns of each row."""
        places = [self.schema.get_field_index(name) for name in names]
        return [tuple(row[place] for place in places) for row in self.rows]

    def batch(self) -> pa.RecordBatch:
        """Return the rows as Arrow.

        Raises:
            ExecutionError: A value does not fit its type.
        """
        values = list(zip(*self.rows, strict=True)) or [()] * len(self.schema)
        try:
            columns = [
                pa.array(column, _storage(field.type)).cast(field.type)
                for column, field in zip(values, self.schema, strict=True)
            ]
        except (OverflowError, pa.ArrowInvalid) as error:
            raise ExecutionError("a result by definition does not fit its type") from error
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def defined_rows(
    rows: PlanNode, given: Mapping[str, Sequence[pa.RecordBatch]], ties: list[str]
) -> DefinedRows:
    """Return the rows of a relation by definition.

    Args:
        rows: Relation.
        given: Rows of its `GivenRows` by name.
        ties: Receives a text for each result that depends on the order of equal rows, so that its
            definition is not unique.

    Raises:
        ExecutionError: An expression fails, the relation has too many rows, or it is not defined
            for a time.
    """
    match rows:
        case GivenRows():
            schema = _nullable(schema_of(rows))
            batches = [batch.select(schema.names).cast(schema) for batch in given[rows.name]]
            return _from_batches(batches, schema)
        case InlineRows():
            return _from_batches(list(computed_batches(rows, {})), _nullable(schema_of(rows)))
        case ProjectedRows():
            below = defined_rows(rows.input, given, ties)
            projection = replace(rows, input=GivenRows(_INPUT))
            batches = list(computed_batches(projection, {_INPUT: [below.batch()]}))
            return _from_batches(batches, _nullable(schema_of(rows)))
        case UnitedRows():
            parts = [defined_rows(part, given, ties) for part in rows.parts]
            return DefinedRows(parts[0].schema, [row for part in parts for row in part.rows])
        case WindowedRows():
            return _in_windows(defined_rows(rows.input, given, ties), rows)
        case RangedRows():
            return _in_ranges(
                defined_rows(rows.input, given, ties), defined_rows(rows.bounds, given, ties), rows
            )
        case DefinedGroups():
            return _groups(defined_rows(rows.input, given, ties), rows)
        case DefinedVersions():
            return _with_versions(defined_rows(rows.input, given, ties), rows)
        case FilledRows():
            below = defined_rows(rows.input, given, ties)
            return DefinedRows(below.schema, rows_with_gaps_filled(below.rows, below.schema, rows))
        case RankedRows():
            return _ranks(defined_rows(rows.input, given, ties), rows, ties)
        case JoinedRows():
            return _join(
                defined_rows(rows.left, given, ties), defined_rows(rows.right, given, ties), rows
            )
        case AsOfRows():
            left, right = (defined_rows(side, given, ties) for side in rows.inputs)
            return _as_of(left, right, rows, ties)
    raise AssertionError(f"no definition of {type(rows).__name__}")


def filled_on_stream(
    rows: FilledRows, batches: Sequence[pa.RecordBatch], passed_us: int | None
) -> pa.RecordBatch:
    """Return windows with the windows that a stream adds.

    Args:
        rows: Windows and fillers.
        batches: Rows of its input.
        passed_us: As in `rows_with_gaps_filled_on_stream`.

    Raises:
        ExecutionError: Windows are not defined for a time.
    """
    below = _from_batches(list(batches), _nullable(schema_of(rows.input)))
    filled = rows_with_gaps_filled_on_stream(below.rows, below.schema, rows, passed_us)
    return DefinedRows(below.schema, filled).batch()


def versions_joined(
    rows: PlanNode, versions: VersionJoining, batches: Sequence[pa.RecordBatch]
) -> pa.RecordBatch:
    """Return rows, each with the version of its key that holds at its time, and no versions.

    Args:
        rows: Relation of the rows and versions.
        versions: Its columns.
        batches: Its rows.
    """
    below = _from_batches(list(batches), _nullable(schema_of(rows)))
    joined = DefinedVersions(rows, versions, tuple(below.schema.names))
    return _with_versions(below, joined).batch()


def rows_ranked(
    rows: MergedWindows,
    first: FirstRows,
    first_rank: int,
    ttl_us: int | None,
    batches: Sequence[pa.RecordBatch],
) -> pa.RecordBatch:
    """Return the first rows of each key, with their ranks as the numbers of copies.

    Args:
        rows: Relation of the rows, with their numbers of copies.
        first: Keys, order and last rank.
        first_rank: First rank.
        ttl_us: As in `runtime.plan.streams.StreamRankStep`.
        batches: Its rows.
    """
    below = _from_batches(list(batches), _nullable(schema_of(rows)))
    (copies,) = rows.aggregation.accumulators[0].output_columns
    place = below.schema.get_field_index(copies)
    repeated = [row for row in below.rows for _ in range(row[place])]
    if ttl_us is not None:
        below = replace(below, rows=repeated)
        ends = below.schema.get_field_index(rows.aggregation.window_end)
        repeated = _not_hidden(below, first, ends, ttl_us)
        # all of these are first
        first = replace(first, by=(*first.by, rows.aggregation.window_end))
    ranks = (first_rank, first.last)
    of = RankedRows(rows, first.function, ranks, first.by, first.order, "$rank")
    ranked = _ranks(replace(below, rows=repeated), of, []).rows
    results = [(*row[:place], row[-1], *row[place + 1 : -1]) for row in ranked]
    return DefinedRows(below.schema, results).batch()


def _not_hidden(
    below: DefinedRows, first: FirstRows, end: int, ttl_us: int
) -> list[tuple[Any, ...]]:
    """Return the rows that no earlier row of their key hides; `end` is the place of their end."""
    until: dict[Any, int] = {}
    keys, sort_keys = below.columns(first.by), below.columns([part.column for part in first.order])
    result = []
    for place in sorted_places(first.order, sort_keys):
        row, key = below.rows[place], tuple(map(key_of, keys[place]))
        if key not in until or row[end] >= until[key]:
            until[key] = row[end] + ttl_us
            result.append(row)
    return result


def _in_ranges(below: DefinedRows, bounds: DefinedRows, of: RangedRows) -> DefinedRows:
    """Return each row once per range that contains it."""
    time, starts, ends = of.columns
    ranges = list(zip(bounds.rows, bounds.column(starts), bounds.column(ends), strict=True))
    _check_size(len(below.rows) * len(ranges))
    result = []
    for row, time_us in zip(below.rows, below.column(time), strict=True):
        if time_us is not None and of.time_zone is not None:
            time_us = wall_clock(time_us, of.time_zone)
        for columns, start, end in ranges:
            if time_us is not None and start <= time_us < end:
                result.append((*row, *columns))
    return DefinedRows(_nullable(schema_of(of)), result)


def _in_windows(below: DefinedRows, of: WindowedRows) -> DefinedRows:
    """Return each row once per window that contains it."""
    timed = [
        (row, time if of.time_type == "timestamp_ntz" else wall_clock(time, of.time_zone))
        for row, time in zip(below.rows, below.column(of.time_column), strict=True)
        if time is not None
    ]
    partitions: dict[Any, list[int]] = {}
    with_time = replace(below, rows=[row for row, _ in timed])
    keys, hidden = with_time.columns(of.window.partition), of.window.row_length
    lengths = None if hidden is None else list(with_time.column(hidden))
    for place, key in enumerate(keys):
        partitions.setdefault(tuple(map(key_of, key)), []).append(place)
    windows: dict[int, Sequence[tuple[int, int]]] = {}
    n_rows = 0
    for places in partitions.values():
        times = [timed[place][1] for place in places]
        of_rows = None if lengths is None else [lengths[place] for place in places]
        for place, bounds in zip(places, of.window.windows_of_rows(times, of_rows), strict=True):
            windows[place] = bounds
            n_rows += len(bounds)
            _check_size(n_rows)
    kept = [number for number, name in enumerate(below.schema.names) if name != hidden]
    result = [
        _with_window(tuple(row[number] for number in kept), window)
        for place, (row, _) in enumerate(timed)
        for window in windows[place]
    ]
    added = [pa.field(name, _BOUND) for name in of.names]
    return DefinedRows(pa.schema([*map(below.schema.field, kept), *added]), result)


def _with_window(row: tuple[Any, ...], window: tuple[int, int]) -> tuple[Any, ...]:
    start, end = window
    return (*row, start, end, end - WINDOW_TIME_LAG_US)


def _groups(below: DefinedRows, of: DefinedGroups) -> DefinedRows:
    """Return one row per combination of keys."""
    groups: dict[Any, list[tuple[Any, ...]]] = {}
    values: dict[Any, tuple[Any, ...]] = {}
    for row, key in zip(below.rows, below.columns(of.keys), strict=True):
        equal = tuple(map(key_of, key))
        groups.setdefault(equal, []).append(row)
        values.setdefault(equal, key)
    names = below.schema.names
    rows = [
        (*values[equal], *(result_of(call, members, names) for call in of.calls))
        for equal, members in groups.items()
    ]
    results = [pa.field(call.column.name, arrow_type(call.column.type)) for call in of.calls]
    return DefinedRows(pa.schema([*map(below.schema.field, of.keys), *results]), rows)


def _with_versions(below: DefinedRows, of: DefinedVersions) -> DefinedRows:
    """Return each row with the latest version of its key that is not after it."""
    joining = of.versions
    names = below.schema.names
    keys = [tuple(map(key_of, key)) for key in below.columns(joining.keys)]
    times, is_version = below.column(joining.time), below.column(joining.is_version)
    values = below.columns(joining.columns)
    result = []
    for place, row in enumerate(below.rows):
        if is_version[place]:
            continue
        held = [
            (times[other], tuple((v is not None, v) for v in values[other]), values[other])
            for other in range(len(below.rows))
            if is_version[other] and keys[other] == keys[place] and times[other] <= times[place]
        ]
        version = max(held, key=lambda one: one[:2])[2] if held else (None,) * len(joining.columns)
        joined = dict(zip(names, row, strict=True)) | dict(
            zip(joining.columns, version, strict=True)
        )
        joined[joining.is_version] = bool(held)
        result.append(tuple(joined[name] for name in of.columns))
    return DefinedRows(pa.schema([below.schema.field(name) for name in of.columns]), result)


def _ranks(below: DefinedRows, of: RankedRows, ties: list[str]) -> DefinedRows:
    """Return the rows whose rank is in the range, with the rank."""
    groups: dict[Any, list[int]] = {}
    for place, key in enumerate(below.columns(of.by)):
        groups.setdefault(tuple(map(key_of, key)), []).append(place)
    sort_keys = below.columns([key.column for key in of.order])
    first, last = of.ranks
    result = []
    for places in groups.values():
        ordered = [places[i] for i in sorted_places(of.order, [sort_keys[p] for p in places])]
        rank = dense = 0
        if of.function == "ROW_NUMBER" and (tie := _tie(below, of, ordered, sort_keys)):
            ties.append(tie)
        for number, place in enumerate(ordered, 1):
            before = ordered[number - 2]
            if number == 1 or compare_rows(of.order, sort_keys[before], sort_keys[place]):
                rank, dense = number, dense + 1
            value = {"ROW_NUMBER": number, "RANK": rank, "DENSE_RANK": dense}[of.function]
            if first <= value <= last:
                result.append((*below.rows[place], value))
    return DefinedRows(below.schema.append(pa.field(of.column, pa.int32())), result)


def _join(left: DefinedRows, right: DefinedRows, of: JoinedRows) -> DefinedRows:
    """Return the pairs of rows that match, and the unmatched rows that the join keeps."""
    left_keys = left.columns([name for name, _ in of.keys])
    right_keys = right.columns([name for _, name in of.keys])
    pairs = [
        (i, j)
        for i, one in enumerate(left_keys)
        for j, other in enumerate(right_keys)
        if None not in one and list(map(key_of, one)) == list(map(key_of, other))
    ]
    _check_size(len(pairs))
    both = pa.schema([*left.schema, *right.schema])
    if of.condition is not None and pairs:
        side_by_side = DefinedRows(both, [(*left.rows[i], *right.rows[j]) for i, j in pairs])
        holds = filter_mask([of.condition], side_by_side.batch()).to_pylist()
        pairs = [pair for pair, is_true in zip(pairs, holds, strict=True) if is_true]
    matched_left, matched_right = {i for i, _ in pairs}, {j for _, j in pairs}
    if of.join_type in ("LeftSemi", "LeftAnti"):
        is_semi = of.join_type == "LeftSemi"
        chosen = [row for i, row in enumerate(left.rows) if (i in matched_left) == is_semi]
        return DefinedRows(left.schema, chosen)
    rows = [(*left.rows[i], *right.rows[j]) for i, j in pairs]
    if of.join_type in ("LeftOuter", "FullOuter"):
        nothing = (None,) * len(right.schema)
        rows += [(*row, *nothing) for i, row in enumerate(left.rows) if i not in matched_left]
    if of.join_type in ("RightOuter", "FullOuter"):
        nothing = (None,) * len(left.schema)
        rows += [(*nothing, *row) for j, row in enumerate(right.rows) if j not in matched_right]
    return DefinedRows(both, rows)


def _as_of(left: DefinedRows, right: DefinedRows, of: AsOfRows, ties: list[str]) -> DefinedRows:
    """Return each left row with the nearest right row of its key, if that is within the limits."""
    matching = of.matching
    _check_size(len(left.rows) * len(right.rows))
    (_, sign, _), *limits = matching.comparisons
    left_keys = left.columns([name for name, _ in matching.keys])
    right_keys = right.columns([name for _, name in matching.keys])
    left_times, right_times = (
        side.column(name) for side, name in zip((left, right), matching.times, strict=True)
    )
    nothing = (None,) * len(right.schema)
    rows = []
    for i, (row, key) in enumerate(zip(left.rows, left_keys, strict=True)):
        nearest: list[int] = []
        for j, other in enumerate(right_keys):
            is_equal = None not in key and list(map(key_of, key)) == list(map(key_of, other))
            if not is_equal or not _holds(left_times[i], sign, right_times[j]):
                continue
            nearer = compare(right_times[j], right_times[nearest[0]]) if nearest else 0
            nearer = nearer if matching.is_before else -nearer
            if nearer >= 0:
                nearest = [j] if nearer else [*nearest, j]
        values = [tuple(map(key_of, right.rows[j])) for j in nearest]
        if any(value != values[0] for value in values):
            ties.append(f"the as-of join picks any row with the same {matching.times[1]}")
        within = nearest and all(
            _holds(left.column(limit)[i], back, right_times[nearest[0]])
            for limit, back, _ in limits
        )
        if within or of.keeps_all:
            rows.append((*row, *(right.rows[nearest[0]] if within else nothing)))
    return DefinedRows(_nullable(schema_of(of)), rows)


def _holds(left: Any, sign: str, right: Any) -> bool:
    """Return whether a comparison is true, not NULL."""
    if left is None or right is None:
        return False
    return "<=>"[compare(left, right) + 1] in sign


def _tie(
    below: DefinedRows,
    of: RankedRows,
    ordered: Sequence[int],
    sort_keys: Sequence[tuple[Any, ...]],
) -> str | None:
    """Return why the numbers of ordered rows depend on the order of equal rows, or None."""
    first, last = of.ranks
    begin = 1  # number of the first row with the same sort keys
    for number, (place, following) in enumerate(pairwise(ordered), 2):
        if compare_rows(of.order, sort_keys[place], sort_keys[following]):
            begin = number
        # any of them may have a number in the range
        is_visible = begin <= last and number >= first
        one, other = (
            tuple(map(key_of, below.rows[row])) for row in (ordered[begin - 1], following)
        )
        if is_visible and one != other:
            group = _text(below.schema, of.by, below.columns(of.by)[place])
            keys = ", ".join(key.column for key in of.order)
            return f"ROW_NUMBER of {group} depends on the order of rows with the same {keys}"
    return None


def _text(schema: pa.Schema, names: Sequence[str], values: Sequence[Any]) -> str:
    """Return the key of a group as text."""
    parts = [
        f"{name}={_value_text(value, schema.field(name).type)}"
        for name, value in zip(names, values, strict=True)
    ]
    return ", ".join(parts) or "all rows"


def _value_text(value: Any, type_: pa.DataType) -> str:
    if value is None:
        return "NULL"
    if not pa.types.is_timestamp(type_):
        return str(value)
    text = pa.scalar(value, pa.int64()).cast(pa.timestamp("us")).cast(pa.string()).as_py()
    return str(text).removesuffix(".000000").removesuffix("000")


def _check_size(n_rows: int) -> None:
    if n_rows > _MAX_ROWS:
        raise ExecutionError(f"the definition has more than {_MAX_ROWS:,} rows to look at")


def _from_batches(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> DefinedRows:
    rows: list[tuple[Any, ...]] = []
    for batch in batches:
        columns = [column.cast(_storage(column.type)).to_pylist() for column in batch.columns]
        rows += zip(*columns, strict=True) if columns else [()] * batch.num_rows
    return DefinedRows(schema, rows)


def _storage(type_: pa.DataType) -> pa.DataType:
    """Return the type of a column's Python values. Times are integers, as years may pass 9999."""
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(type_) else type_


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, field.type) for field in schema])
