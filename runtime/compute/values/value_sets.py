"""Sets of values by group, for DISTINCT aggregates: each group's values in one list.

Group and value form one number, so that finding distinct pairs takes one sort of plain integers, or
none if there are few cells.
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
    as_type,
    int64_values,
    list_array,
    normalise_floats,
    one_chunk,
)
from runtime.compute.kernels.grouping import MAX_CELLS, Groups, SingleRows, distinct_cells
from runtime.compute.kernels.key_digits import key_digits
from runtime.compute.values.registers import RANK_BITS

_REGISTERS = pa.list_(pa.int32())


def sets_of_rows(
    groups: Groups,
    args: Sequence[pa.Array],
    condition: BoolArray | None,
    type_: pa.ListType,
) -> pa.ListArray:
    """Collect the distinct values of each group of rows.

    NaN equals NaN and -0.0 equals 0.0. If every row is a group of its own, values are only
    normalised.

    Args:
        groups: Groups of the rows.
        args: Arguments, one value per row, dictionary-encoded or not; several arguments form
            tuples. Rows where one is NULL are ignored.
        condition: Rows to aggregate; None for all.
        type_: Type of the result: lists of the argument's type, or of structs of the arguments'
            types.
    """
    valid = all_valid(args, condition)
    if valid is not None:
        mask = pa.array(valid)
        args = [arg.filter(mask) for arg in args]
    if isinstance(groups, SingleRows):
        lengths = np.ones(len(groups), np.int64) if valid is None else valid.astype(np.int64)
        return _lists(lengths, [normalise_floats(one_chunk(arg)) for arg in args], type_)
    group = groups.group_of_row()
    return _distinct_lists(group if valid is None else group[valid], len(groups), args, type_)


def merge_sets(groups: Groups, lists: pa.ListArray) -> pa.ListArray:
    """Return the union of the lists of each group.

    Args:
        groups: Groups of the lists.
        lists: Lists without NULLs; a NULL list is empty.
    """
    lengths = list_lengths(lists)
    values = one_chunk(pc.list_flatten(lists))
    columns = values.flatten() if pa.types.is_struct(values.type) else [values]
    return _distinct_lists(
        np.repeat(groups.group_of_row(), lengths), len(groups), columns, lists.type
    )


def registers_of_rows(groups: Groups, codes: pa.Array, condition: BoolArray | None) -> pa.ListArray:
    """Collect the registers that each group's rows reach, each once with its largest rank.

    Args:
        groups: Groups of the rows.
        codes: INT, `register << 6 | rank` of each row, or NULL.
        condition: Rows to aggregate; None for all.
    """
    codes = one_chunk(codes)
    valid = all_valid([codes], condition)
    group, values = groups.group_of_row(), int64_values(codes)
    if valid is not None:
        group, values = group[valid], values[valid]
    return _largest_ranks(group, len(groups), values)


def merge_registers(groups: Groups, lists: pa.ListArray) -> pa.ListArray:
    """Merge the registers of each group's lists, each once with its largest rank."""
    group = np.repeat(groups.group_of_row(), list_lengths(lists))
    return _largest_ranks(group, len(groups), int64_values(one_chunk(pc.list_flatten(lists))))


def _largest_ranks(group: Int64Array, n_groups: int, codes: Int64Array) -> pa.ListArray:
    if len(group) == 0:
        nothing = pa.array([], pa.int32())
        return _lists(np.zeros(n_groups, np.int64), [nothing], _REGISTERS)
    # A multiple of the number of ranks, so that a cell without its rank is a group and a register.
    n_codes = ((int(codes.max()) >> RANK_BITS) + 1) << RANK_BITS
    cells = distinct_cells(group * n_codes + codes, n_groups * n_codes)
    register = cells >> RANK_BITS
    cells = cells[np.append(register[1:] != register[:-1], True)]
    group = cells // n_codes
    values = pa.array((cells - group * n_codes).astype(np.int32))
    return _lists(np.bincount(group, minlength=n_groups), [values], _REGISTERS)


def list_lengths(lists: pa.Array | pa.ChunkedArray) -> Int64Array:
    """Return the length of each list; 0 for NULL."""
    return int64_values(one_chunk(pc.fill_null(pc.list_value_length(lists), 0)))


def _distinct_lists(
    group: Int64Array, n_groups: int, columns: Sequence[pa.Array], type_: pa.ListType
) -> pa.ListArray:
    if len(group) == 0:
        nothing = [one_chunk(column) for column in columns]
        return _lists(np.zeros(n_groups, np.int64), nothing, type_)
    digits = key_digits(columns, len(group), MAX_CELLS // n_groups)
    cells = distinct_cells(group * digits.n_codes + digits.codes, n_groups * digits.n_codes)
    group = cells // digits.n_codes
    values = digits.decode(cells - group * digits.n_codes)
    return _lists(np.bincount(group, minlength=n_groups), values, type_)


def _lists(lengths: Int64Array, columns: Sequence[pa.Array], type_: pa.ListType) -> pa.ListArray:
    """Return lists of the given lengths over consecutive values."""
    if pa.types.is_struct(type_.value_type):
        fields = list(type_.value_type)
        parts = [as_type(column, field.type) for column, field in zip(columns, fields, strict=True)]
        values = pa.StructArray.from_arrays(parts, fields=fields)
    else:
        values = as_type(columns[0], type_.value_type)
    return list_array(lengths, values, type_)
