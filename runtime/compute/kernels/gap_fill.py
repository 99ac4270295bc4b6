"""Add rows for windows without rows, vectorised over keys.

TUMBLE 5, key a:        |  1  |     |     |  4  |        values of the rows
LOCF                    |  1  |  1  |  1  |  4  |
LINEAR                  |  1  |  2  |  3  |  4  |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.evaluate import evaluate
from runtime.compute.kernels.conversions import (
    BoolArray,
    Int64Array,
    int64_array,
    int64_values,
    validity,
)
from runtime.compute.kernels.interpolate import interpolate
from runtime.compute.kernels.key_digits import key_digits
from runtime.compute.kernels.ranks import order_codes
from runtime.compute.kernels.slots import check_windows_fit
from runtime.compute.wall_clock import instants_us, wall_clock_us
from runtime.errors import ExecutionError
from runtime.spec.filling import FillConstant, Filler, FillLinear, FillLocf, GapFilling
from runtime.windows.assigner import SliceAssigner

# Approximate maximum rows of a batch; a key is never cut
_BATCH_ROWS = 1 << 18
_BOUND_TYPE = pa.timestamp("us")
_NO_COLUMNS = pa.record_batch([pa.array([0], pa.int8())], names=["$row"])


def fill_gaps(
    rows: pa.RecordBatch, of: GapFilling, zone: str, batch_rows: int = _BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield the rows and the added windows, by key and then by window end.

    Args:
        rows: All rows of some keys, in any order, with the columns of `of` and no others.
        of: Windows and fillers.
        zone: Time zone of the windows' wall clock, if they are windows of instants.
        batch_rows: Approximate number of rows of a batch.

    Raises:
        ExecutionError: A key has more than `max_windows` windows, or a window does not fit
            TIMESTAMP.
    """
    if rows.num_rows == 0:
        return
    assigner = of.window.assigner()
    keys = _Keys.of(rows, of, assigner)
    _check_limit(keys, rows, of, assigner)
    # consecutive keys whose windows and rows make about a batch
    sizes = np.cumsum(keys.n_windows + np.diff(keys.row_starts))
    groups = np.searchsorted(sizes, np.arange(batch_rows, int(sizes[-1]) + batch_rows, batch_rows))
    bounds = np.unique(np.minimum(np.concatenate(([0], groups + 1)), len(sizes))).tolist()
    for first, end in pairwise(bounds):
        yield _filled(rows, keys.part(first, end), of, assigner, zone)


@dataclass(frozen=True)
class _Keys:
    """Keys and their rows, by key and then by window.

    Attributes:
        rows: int64[n], positions of the rows with a window in this order.
        numbers: int64[n], window numbers of these rows.
        row_starts: int64[k + 1], where the rows of each key begin.
        of_key: int64[k], position of a row with the columns of each key.
        first: int64[k], number of each key's first window in the result.
        n_windows: int64[k], number of each key's windows in the result, from first to last.
    """

    rows: Int64Array
    numbers: Int64Array
    row_starts: Int64Array
    of_key: Int64Array
    first: Int64Array
    n_windows: Int64Array

    @staticmethod
    def of(rows: pa.RecordBatch, of: GapFilling, assigner: SliceAssigner) -> _Keys:
        n_rows = rows.num_rows
        codes = key_digits([rows.column(name) for name in of.keys], n_rows, 1 << 62).codes
        _, of_key, key = np.unique(codes, return_index=True, return_inverse=True)
        key = key.reshape(-1)
        end = rows.column(of.end)
        has_window = validity(end)
        position = np.arange(n_rows) if has_window is None else np.flatnonzero(has_window)
        end_us = int64_values(end)[position]
        if len(end_us):
            check_windows_fit(int(end_us.min()) - 1, int(end_us.max()) - 1, assigner)
        number = assigner.window_number(end_us)
        ties = () if of.order is None else (order_codes(rows.column(of.order), False, True),)
        order = np.lexsort((*(code[position] for code in ties), number, key[position]))
        position, number = position[order], number[order]
        n_keys = len(of_key)
        row_starts = np.searchsorted(key[position], np.arange(n_keys + 1))
        has_rows = row_starts[1:] > row_starts[:-1]
        first, last = np.zeros(n_keys, np.int64), np.full(n_keys, -1, np.int64)
        first[has_rows] = number[row_starts[:-1][has_rows]]
        last[has_rows] = number[row_starts[1:][has_rows] - 1]
        is_declared = has_rows
        if of.from_us is not None and of.to_us is not None:
            is_declared = np.ones(n_keys, np.bool_)
        if of.from_us is not None:
            first[:] = _first_number(of.from_us, assigner)
        if of.to_us is not None:
            last[:] = _last_number(of.to_us, assigner)
        n_windows = np.where(is_declared, np.maximum(last - first + 1, 0), 0)
        return _Keys(position, number, row_starts, of_key, first, n_windows)

    def part(self, first: int, end: int) -> _Keys:
        """Return the keys from `first` up to, but excluding, `end`."""
        from_row, to_row = (int(self.row_starts[at]) for at in (first, end))
        return _Keys(
            self.rows[from_row:to_row],
            self.numbers[from_row:to_row],
            self.row_starts[first : end + 1] - from_row,
            self.of_key[first:end],
            self.first[first:end],
            self.n_windows[first:end],
        )


def _first_number(from_us: int, assigner: SliceAssigner) -> int:
    """Return the number of the first window that does not start before a time."""
    check_windows_fit(from_us, from_us, assigner)
    return _number(assigner.first_window_end_from(from_us), assigner)


def _last_number(to_us: int, assigner: SliceAssigner) -> int:
    """Return the number of the last window that does not end after a time."""
    check_windows_fit(to_us, to_us, assigner)
    return _number(assigner.previous_window_end(to_us), assigner)


def _number(window_end: int, assigner: SliceAssigner) -> int:
    return int(assigner.window_number(np.array([window_end]))[0])


def _check_limit(
    keys: _Keys, rows: pa.RecordBatch, of: GapFilling, assigner: SliceAssigner
) -> None:
    """Reject a key with too many windows.

    Raises:
        ExecutionError: A key has more than `max_windows`.
    """
    largest = int(keys.n_windows.argmax())
    n_windows = int(keys.n_windows[largest])
    if n_windows <= of.max_windows:
        return
    first = int(keys.first[largest])
    ends = assigner.window_end_of(np.array([first, first + n_windows - 1]))
    start_us, end_us = int(assigner.window_start(ends)[0]), int(ends[1])
    at = int(keys.of_key[largest])
    values = (f"{name} = {rows.column(name)[at].as_py()}" for name in of.keys if name[0] != "$")
    key = ", ".join(values) or "the query"
    raise ExecutionError(
        f"FILL would make {n_windows:,} windows for {key}, from {_time_text(start_us)} to "
        f"{_time_text(end_us)}: the maximum is {of.max_windows:,}",
        hint="filter rows with wrong times, use longer windows, give FILL a FROM and a TO, or "
        f"set 'sqlwin.fill.max-windows' = '{n_windows}'",
    )


def _time_text(time_us: int) -> str:
    return str(np.datetime64(time_us, "us").astype("M8[s]")).replace("T", " ")


def _filled(
    rows: pa.RecordBatch, keys: _Keys, of: GapFilling, assigner: SliceAssigner, zone: str
) -> pa.RecordBatch:
    """Return the rows and the added windows of some keys."""
    key_of_row = np.repeat(np.arange(len(keys.of_key)), np.diff(keys.row_starts))
    new_key, new_number = _missing(keys, key_of_row)
    new_end = assigner.window_end_of(new_number)
    is_window = assigner.window_number(new_end) == new_number
    if of.is_of_instants:
        is_window &= has_instants(assigner.window_start(new_end), new_end, zone)
    if not is_window.all():
        new_key, new_number = new_key[is_window], new_number[is_window]
        new_end = new_end[is_window]
    n_old = len(keys.rows)
    all_keys = np.concatenate((key_of_row, new_key))
    # Sort stably: rows of one window stay in order.
    order = np.lexsort((np.concatenate((keys.numbers, new_number)), all_keys))
    old = rows.take(int64_array(keys.rows, None, pa.int64()))
    ends = np.concatenate((int64_values(old.column(of.end)), new_end))[order]
    starts = assigner.window_start(ends)
    # windows of CUMULATE share their start
    x = ends if of.window.grows else starts
    at = _Places(all_keys[order], order < n_old, x)
    take = int64_array(order, None, pa.int64())
    fillers = dict(of.fillers)
    columns = []
    for field, column in zip(rows.schema, old.columns, strict=True):
        if field.name in of.keys:
            new = rows.column(field.name).take(int64_array(keys.of_key[new_key], None, pa.int64()))
            columns.append(pa.concat_arrays([column, new]).take(take))
        elif field.name in (of.start, of.end):
            # rows may come with the starts of other windows that have the same ends
            bound = starts if field.name == of.start else ends
            columns.append(int64_array(bound, None, _BOUND_TYPE).cast(field.type))
        else:
            columns.append(_fill(fillers[field.name], column, len(new_key), take, at))
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _missing(keys: _Keys, key_of_row: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return key and number of the windows without rows."""
    offset = np.cumsum(keys.n_windows) - keys.n_windows
    n_slots = int(keys.n_windows.sum())
    slot = keys.numbers - keys.first[key_of_row]
    is_inside = (slot >= 0) & (slot < keys.n_windows[key_of_row])
    is_missing = np.ones(n_slots, np.bool_)
    is_missing[(slot + offset[key_of_row])[is_inside]] = False
    missing = np.flatnonzero(is_missing)
    key = np.searchsorted(offset + keys.n_windows, missing, side="right")
    return key, keys.first[key] + missing - offset[key]


def has_instants(start_us: Int64Array, end_us: Int64Array, zone: str) -> BoolArray:
    """Return which windows on the wall clock of a zone have an instant.

    The clock skips the others, for example when summer time begins.
    """
    # a skipped start becomes a time after the gap
    after_gap = wall_clock_us(instants_us(start_us, zone), zone)
    last_us = end_us - 1
    is_last_shown = wall_clock_us(instants_us(last_us, zone), zone) == last_us
    has: BoolArray = (after_gap < end_us) | is_last_shown
    return has


@dataclass(frozen=True)
class _Places:
    """Rows of some keys in the order of the result.

    Attributes:
        key: int64[n], key of each row.
        is_old: bool[n], whether the row is an input row.
        x: int64[n], the time of each row's window on the lines of LINEAR.
    """

    key: Int64Array
    is_old: BoolArray
    x: Int64Array

    def before(self, has_value: BoolArray) -> Int64Array:
        """Return int64[n], the last row of the key with a value up to each row; -1 for none."""
        place = np.maximum.accumulate(np.where(has_value, np.arange(len(self.key)), -1))
        return np.where(self.key[place] == self.key, place, -1)

    def after(self, has_value: BoolArray) -> Int64Array:
        """Return int64[n], the key's first row with a value from each row on; -1 for none."""
        n_rows = len(self.key)
        places = np.where(has_value, np.arange(n_rows), n_rows)
        place = np.minimum.accumulate(places[::-1])[::-1]
        place = np.where(place == n_rows, -1, place)
        return np.where(self.key[place] == self.key, place, -1)


def _fill(filler: Filler, column: pa.Array, n_new: int, take: pa.Array, at: _Places) -> pa.Array:
    """Return a column in the order of the result, with the values of the added windows."""
    if n_new == 0:
        return column.take(take)
    if isinstance(filler, FillConstant) and filler.value.value is not None:
        value = evaluate(filler.value, _NO_COLUMNS).cast(column.type)
        new = value.take(int64_array(np.zeros(n_new, np.int64), None, pa.int64()))
        return pa.concat_arrays([column, new]).take(take)
    values = pa.concat_arrays([column, pa.nulls(n_new, column.type)]).take(take)
    if isinstance(filler, FillConstant):
        return values
    valid = validity(values)
    has_value = at.is_old if valid is None else at.is_old & valid
    before = at.before(has_value)
    if isinstance(filler, FillLocf):
        # input rows keep their values
        place = np.where(at.is_old, np.arange(len(before)), before)
        return values.take(int64_array(place, place >= 0, pa.int64()))
    assert isinstance(filler, FillLinear)
    after = at.after(has_value)
    new_places = np.flatnonzero(~at.is_old & (before >= 0) & (after >= 0))
    if len(new_places) == 0:
        return values
    left, right = before[new_places], after[new_places]
    line = interpolate(
        values.take(int64_array(left, None, pa.int64())),
        values.take(int64_array(right, None, pa.int64())),
        at.x[new_places] - at.x[left],
        at.x[right] - at.x[left],
    )
    place = np.arange(len(before))
    place[new_places] = len(before) + np.arange(len(new_places))
    return pa.concat_arrays([values, line]).take(int64_array(place, None, pa.int64()))
