"""LISTAGG: the texts of a window's rows, by time, from lists of the rows of its slices.

Slices of a key lie one after the other in the order of time. So with the rows of each slice sorted
by time, the rows of any window are one stretch, whatever the overlap.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.columns import (
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


def rows_type(time: pa.DataType) -> pa.ListType:
    """The type of lists of rows, from that of their times."""
    return pa.list_(pa.struct([(TIME, time), (TEXT, pa.string())]))


def rows_of_groups(
    groups: Groups, args: Sequence[pa.Array], condition: BoolArray | None, type_: pa.ListType
) -> pa.ListArray:
    """The rows of each group in one list, in the order in which they come.

    Args:
        groups: the groups of the rows.
        args: the time of each row, and its text; rows where one is NULL are left out.
        condition: which rows take part; None: all.
        type_: of the result, see `rows_type`.
    """
    columns = [one_chunk(arg) for arg in args]
    valid = all_valid(columns, condition)
    group = groups.of_row()
    row = np.arange(len(group)) if valid is None else np.flatnonzero(valid)
    row = row[np.argsort(group[row], kind="stable")]
    fields = list(type_.value_type)
    taken = [
        column.take(pa.array(row)).cast(field.type)
        for column, field in zip(columns, fields, strict=True)
    ]
    values = pa.StructArray.from_arrays(taken, fields=fields)
    return list_array(np.bincount(group[row], minlength=len(groups)), values)


def merge_rows(groups: Groups, lists: pa.ListArray) -> pa.ListArray:
    """The lists of each group as one; a list that is NULL is empty."""
    group = np.repeat(groups.of_row(), list_lengths(lists))
    order = np.argsort(group, kind="stable")
    values = one_chunk(pc.list_flatten(lists)).take(pa.array(order))
    return list_array(np.bincount(group, minlength=len(groups)), values)


class TextsByTime:
    """The texts of consecutive slices, those of one time by the text.

    Args:
        rows: the rows of the slices.
        n_slices: how many slices there are.
    """

    def __init__(self, rows: SliceValues, n_slices: int) -> None:
        values = one_chunk(rows.values)
        time = int64_values(values.field(TIME)).take(rows.place)
        texts = values.field(TEXT)
        order = np.lexsort((ranks(texts)[0].take(rows.place), time, rows.slice_row))
        self._texts = texts.take(pa.array(rows.place.take(order)))
        self._offset = running_sums(np.bincount(rows.slice_row, minlength=n_slices))

    def joined(
        self,
        oldest_slice: Int64Array,
        newest_slice: Int64Array,
        separator: str,
        is_unique: bool = False,
    ) -> pa.Array:
        """The texts from one slice to another as one text; NULL where there are none.

        Args:
            oldest_slice: the first slice of each window.
            newest_slice: the last one.
            separator: what stands between two texts.
            is_unique: whether of equal texts of a window the first one alone counts.
        """
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
        lists = list_array(lengths, self._texts.take(pa.array(place)))
        joined = pc.binary_join(lists, separator)
        return pc.if_else(pa.array(lengths > 0), joined, pa.scalar(None, pa.string()))
