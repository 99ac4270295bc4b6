"""Columns of lists: the values of each slice, numbered so that equal values compare fast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.conversions import (
    Int64Array,
    distinct_codes,
    int64_values,
    integer_storage,
    normalise_floats,
    one_chunk,
    running_sums,
)
from runtime.compute.kernels.keys import encode_keys
from runtime.compute.values.value_sets import list_lengths

# Integers in a range this narrow are numbered by their distance from the smallest. This needs few
# bits, so that key, value and row fit one number for sorting.
_DENSE_RANGE = 1 << 28


@dataclass(frozen=True)
class SliceValues:
    """Values of the slices of some keys, in the order of the slices.

    Attributes:
        slice_row: int64[n], ascending: slice of each value. A slice may contain a value several
            times.
        code: int64[n], 0 .. n_codes - 1, equal for equal values.
        n_codes: Bound of the codes.
        values: Values, in an arbitrary order.
        place: int64[n], index of each value in `values`.
    """

    slice_row: Int64Array
    code: Int64Array
    n_codes: int
    values: pa.Array
    place: Int64Array

    def __len__(self) -> int:
        return len(self.code)


@dataclass(frozen=True)
class ValueLists:
    """Column of lists.

    Attributes:
        offset: int64[n_rows + 1], start of each row's list among the values.
        code: int64[n_values], 0 .. n_codes - 1, equal for equal values: NaN equals NaN, -0.0 equals
            0.0.
        n_codes: Bound of the codes.
        values: Values of all lists.
    """

    offset: Int64Array
    code: Int64Array
    n_codes: int
    values: pa.Array

    @property
    def n_values(self) -> Int64Array:
        """int64[n_rows], length of each list."""
        lengths: Int64Array = np.diff(self.offset)
        return lengths

    def slice_values(self, rows: Int64Array | slice, slice_row: Int64Array) -> SliceValues:
        """Return the values of some rows.

        Args:
            rows: Rows, ordered by slice.
            slice_row: int64[n], ascending: slice of each of `rows`.
        """
        begin, end = self.offset[:-1][rows], self.offset[1:][rows]
        n_values = end - begin
        place = np.repeat(end - np.cumsum(n_values), n_values)
        place += np.arange(len(place))
        return SliceValues(
            np.repeat(slice_row, n_values),
            self.code.take(place),
            self.n_codes,
            self.values,
            place,
        )


def value_lists(
    column: pa.Array | pa.ChunkedArray, *, are_distinguished: bool = True
) -> ValueLists:
    """Split a column of lists into offsets, codes and values.

    Args:
        column: Lists of any flat type, or of structs of flat types, without NULLs; a NULL list is
            empty.
        are_distinguished: Whether the codes are needed; if not, all of them are 0.
    """
    offset = running_sums(list_lengths(column))
    values = one_chunk(pc.list_flatten(column))
    code, n_codes = _number(values) if are_distinguished else (np.zeros(len(values), np.int64), 1)
    return ValueLists(offset, code, n_codes, values)


def _number(values: pa.Array) -> tuple[Int64Array, int]:
    """Return a number for each value, equal for equal values, and a bound of the numbers."""
    if len(values) == 0:
        return np.zeros(0, np.int64), 1
    if pa.types.is_struct(values.type):
        codes, distinct_fields = encode_keys(values.flatten(), len(values))
        return codes, max(map(len, distinct_fields), default=1)
    if integer_storage(values.type) is not None:
        numbers = int64_values(values)
        smallest, largest = int(numbers.min()), int(numbers.max())
        if largest - smallest < _DENSE_RANGE:
            return numbers - smallest, largest - smallest + 1
    codes, distinct = distinct_codes(normalise_floats(values))
    return codes, len(distinct)
