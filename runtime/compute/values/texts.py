"""LISTAGG and COLLECT_LIST: the values of a window's rows, by time, from rows of its slices.

Slices of a key are adjacent, in order of time. With the rows of each slice sorted by time, the rows
of any window are contiguous, for any overlap.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.conversions import (
    BoolArray,
    Int64Array,
    all_valid,
    distinct_codes,
    int64_values,
    list_array,
    one_chunk,
    ranks,
    running_sums,
)
from runtime.compute.kernels.grouping import Groups
from runtime.compute.values.value_lists import SliceValues
from runtime.compute.values.value_sets import list_lengths

# Fields of a row in a list
TIME, TEXT = "o", "v"


def rows_of_groups(
    groups: Groups, args: Sequence[pa.Array], condition: BoolArray | None, type_: pa.ListType
) -> pa.ListArray:
    """Collect the rows of each group in a list, in input order.

    Args:
        groups: Groups of the rows.
        args: Time and value of each row; rows where one is NULL are ignored.
        condition: Rows to aggregate; None for all.
        type_: Type of the result.
    """
    columns = [one_chunk(arg) for arg in args]
    valid = all_valid(columns, condition)
    group = groups.group_of_row()
    row = np.arange(len(group)) if valid is None else np.flatnonzero(valid)
    row = row[np.argsort(group[row], kind="stable")]
    fields = list(type_.value_type)
    field_values = [
        column.take(pa.array(row)).cast(field.type)
        for column, field in zip(columns, fields, strict=True)
    ]
    values = pa.StructArray.from_arrays(field_values, fields=fields)
    return list_array(np.bincount(group[row], minlength=len(groups)), values)


def merge_rows(groups: Groups, lists: pa.ListArray) -> pa.ListArray:
    """Concatenate the lists of each group; NULL counts as empty."""
    group = np.repeat(groups.group_of_row(), list_lengths(lists))
    order = np.argsort(group, kind="stable")
    values = one_chunk(pc.list_flatten(lists)).take(pa.array(order))
    return list_array(np.bincount(group, minlength=len(groups)), values)


class TextsByTime:
    """Values of consecutive slices by time, then by value.

    Args:
        rows: Rows of the slices.
        n_slices: Number of slices.
    """

    def __init__(self, rows: SliceValues, n_slices: int) -> None:
        values = one_chunk(rows.values)
        time = int64_values(values.field(TIME)).take(rows.place)
        texts = values.field(TEXT)
        order = np.lexsort((ranks(texts)[0].take(rows.place), time, rows.slice_row))
        self._texts = texts.take(pa.array(rows.place.take(order)))
        self._offset = running_sums(np.bincount(rows.slice_row, minlength=n_slices))

    def join_texts(
        self,
        oldest_slice: Int64Array,
        newest_slice: Int64Array,
        separator: str,
        is_unique: bool = False,
    ) -> pa.Array:
        """Concatenate the texts of each range of slices; NULL for no texts.

        Args:
            oldest_slice: First slice of each window.
            newest_slice: Last slice of each window.
            separator: Text between two texts.
            is_unique: Whether only the first of equal texts in a window counts.
        """
        lists = self.lists(oldest_slice, newest_slice, is_unique)
        texts = pc.binary_join(lists, separator)
        has_texts = pc.greater(pc.list_value_length(lists), 0)
        return pc.if_else(has_texts, texts, pa.scalar(None, pa.string()))

    def lists(
        self, oldest_slice: Int64Array, newest_slice: Int64Array, is_unique: bool = False
    ) -> pa.ListArray:
        """Return the values of each range of slices. Arguments are as for `join_texts`."""
        begin, end = self._offset.take(oldest_slice), self._offset.take(newest_slice + 1)
        lengths = end - begin
        place = np.repeat(end - np.cumsum(lengths), lengths)
        place += np.arange(len(place))
        if is_unique:
            window = np.repeat(np.arange(len(lengths)), lengths)
            code, distinct = distinct_codes(self._texts)
            _, first = np.unique(window * len(distinct) + code[place], return_index=True)
            first.sort()
            lengths, place = np.bincount(window[first], minlength=len(lengths)), place[first]
        return list_array(lengths, self._texts.take(pa.array(place)))
