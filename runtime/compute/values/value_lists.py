"""Columns of lists: the values seen in each slice, numbered so that equal values compare fast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.columns import (
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

# Integers that lie this close together are numbered by their distance from the smallest. So few
# bits leave enough for the key and for the row where they are sorted as one number.
_DENSE_RANGE = 1 << 28


@dataclass(frozen=True)
class SliceValues:
    """The values of the slices of some keys, one after another in the order of the slices.

    Attributes:
        slice_row: int64[n], ascending: the slice that each value was seen in. A slice may have a
            value several times.
        code: int64[n], 0 .. n_codes - 1, equal for equal values.
        n_codes: how many codes there can be.
        values: the values themselves, in an order of their own.
        place: int64[n], the position of each value in `values`.
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
    """A column of lists.

    Attributes:
        offset: int64[n_rows + 1], where the list of each row begins among the values.
        code: int64[n_values], 0 .. n_codes - 1, equal for equal values: NaN equals NaN, -0.0
            equals 0.0.
        n_codes: how many codes there can be.
        values: the values of all lists.
    """

    offset: Int64Array
    code: Int64Array
    n_codes: int
    values: pa.Array

    @property
    def n_values(self) -> Int64Array:
        """int64[n_rows], the length of each list."""
        lengths: Int64Array = np.diff(self.offset)
        return lengths

    def of_slices(self, rows: Int64Array | slice, slice_row: Int64Array) -> SliceValues:
        """The values in some rows.

        Args:
            rows: the rows, by slice.
            slice_row: int64[n], ascending: the slice of each of `rows`.
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
    """Take a column of lists apart.

    Args:
        column: lists of any flat type, or of structs of flat types, without NULLs in them; a
            list that is NULL has no values.
        are_distinguished: whether the codes are needed; if not, all of them are 0.
    """
    offset = running_sums(list_lengths(column))
    values = one_chunk(pc.list_flatten(column))
    code, n_codes = _number(values) if are_distinguished else (np.zeros(len(values), np.int64), 1)
    return ValueLists(offset, code, n_codes, values)


def _number(values: pa.Array) -> tuple[Int64Array, int]:
    """(a number for each value, equal for equal values; a bound that none of them reaches)."""
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
