"""Conversions of Arrow columns and numpy arrays: values, validity, codes of distinct values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64Array = npt.NDArray[np.int64]
UInt64Array = npt.NDArray[np.uint64]
Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]

# Types stored as integers, with the integer type of the same width.
_INTEGER_STORAGE = {
    "date32[day]": pa.int32(),
    "date64[ms]": pa.int64(),
    "time32[s]": pa.int32(),
    "time32[ms]": pa.int32(),
    "time64[us]": pa.int64(),
    "time64[ns]": pa.int64(),
}

# `DataType.id` is many times faster to compare than the functions of `pa.types`
_ENCODED = {pa.lib.Type_DICTIONARY, pa.lib.Type_STRING_VIEW, pa.lib.Type_BINARY_VIEW}
_STORED_AS_INT64 = {
    pa.lib.Type_INT64,
    pa.lib.Type_TIMESTAMP,
    pa.lib.Type_DURATION,
    pa.lib.Type_DATE64,
    pa.lib.Type_TIME64,
}
_INT64 = np.dtype(np.int64)
# Bits of a value of the most frequent types
_WIDTHS = {
    pa.lib.Type_INT64: 64,
    pa.lib.Type_TIMESTAMP: 64,
    pa.lib.Type_DOUBLE: 64,
    pa.lib.Type_INT32: 32,
}


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the column as one plain array: chunks concatenated, dictionaries and views decoded."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if column.type.id not in _ENCODED:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    elif pa.types.is_binary_view(column.type):
        column = column.cast(pa.large_binary())
    return column


def combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    """Return the column as one array that is dictionary-encoded if all its chunks are."""
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return pa.concat_arrays(column.chunks)


def as_type(column: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    """Return the column as one plain array of a type."""
    column = one_chunk(column)
    return column if column.type == type_ else column.cast(type_)


def is_variable_width(type_: pa.DataType) -> bool:
    """Return whether values are strings or binaries, with offsets of 32 or 64 bits."""
    checks = (
        pa.types.is_string,
        pa.types.is_binary,
        pa.types.is_large_string,
        pa.types.is_large_binary,
    )
    return any(check(type_) for check in checks)


def integer_storage(type_: pa.DataType) -> pa.DataType | None:
    """Return the signed integer type that stores values of `type_` in order, or None."""
    if pa.types.is_signed_integer(type_):
        return type_
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        return pa.int64()
    if pa.types.is_boolean(type_):
        return pa.int8()
    return _INTEGER_STORAGE.get(str(type_))


def validity(column: pa.Array) -> BoolArray | None:
    """Return True where the value is not NULL; None if no value is NULL."""
    if column.null_count == 0:
        return None
    valid: BoolArray = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def all_valid(columns: Iterable[pa.Array], condition: BoolArray | None) -> BoolArray | None:
    """Return the rows where the condition holds and no column is NULL; None for all rows."""
    valid = condition
    for column in columns:
        more = validity(column)
        if more is not None:
            valid = more if valid is None else valid & more
    return valid


def running_sums(amounts: Int64Array) -> Int64Array:
    """Return int64[n + 1], the sum of the first 0, 1, ... n amounts."""
    sums = np.zeros(len(amounts) + 1, np.int64)
    np.cumsum(amounts, out=sums[1:])
    return sums


def list_array(
    lengths: Int64Array,
    values: pa.Array,
    type_: pa.ListType | None = None,
    is_null: BoolArray | None = None,
) -> pa.ListArray:
    """Return lists of the given lengths over consecutive values."""
    offsets = pa.array(running_sums(lengths).astype(np.int32))
    mask = None if is_null is None else pa.array(is_null)
    return pa.ListArray.from_arrays(offsets, values, type=type_, mask=mask)


def int64_values(column: pa.Array) -> Int64Array:
    """Return the values of a column with integer storage; arbitrary for NULLs."""
    type_ = column.type
    if type_.id in _STORED_AS_INT64:
        values: Int64Array = _data_buffer(column, _INT64)
        return values
    if pa.types.is_boolean(type_):
        column = column.cast(pa.int8())
    else:
        column = column.view(integer_storage(type_))
    return _data_buffer(column, column.type.to_pandas_dtype()).astype(np.int64, copy=False)


def int64_column(table: pa.Table, name: str) -> Int64Array:
    """Return the values of a table column like `int64_values`."""
    return int64_values(one_chunk(table.column(name)))


def replace_values(table: pa.Table, name: str, values: AnyArray) -> pa.Table:
    """Replace the values of a table column."""
    index = table.schema.get_field_index(name)
    return table.set_column(index, table.schema.field(index), pa.array(values))


def float64_values(column: pa.Array) -> npt.NDArray[np.float64]:
    """Return the values of a floating-point column; arbitrary for NULLs."""
    if not pa.types.is_float64(column.type):
        column = column.cast(pa.float64())
    return _data_buffer(column, np.float64)


def decimal_words(column: pa.Array) -> Int64Array:
    """Return the low and high 64 bits of decimal128s, int64[n, 2]; arbitrary for NULLs."""
    words: Int64Array = _data_buffer(column, np.dtype((np.int64, 2)))
    return words


def decimal_array(
    low: Int64Array, high: Int64Array, valid: BoolArray | None, type_: pa.DataType
) -> pa.Array:
    """Return a decimal128 column from low and high 64 bits, without checking the digits."""
    return from_buffer(np.stack((low, high), axis=1), valid, type_, len(low))


def int64_array(values: Int64Array, valid: BoolArray | None, type_: pa.DataType) -> pa.Array:
    """Convert values back from `int64_values`; `ArrowInvalid` if one does not fit `type_`."""
    storage = integer_storage(type_)
    if pa.types.is_boolean(type_):
        return from_buffer(values, valid, pa.int64(), len(values)).cast(pa.bool_())
    column = from_buffer(values, valid, pa.int64(), len(values))
    if storage != pa.int64():
        column = column.cast(storage)
    return column.view(type_)


def float64_array(
    values: npt.NDArray[np.float64], valid: BoolArray | None, type_: pa.DataType
) -> pa.Array:
    """Convert values back from `float64_values`, rounded to the width of `type_`."""
    column = from_buffer(values, valid, pa.float64(), len(values))
    return column if pa.types.is_float64(type_) else column.cast(type_, safe=False)


def from_buffer(
    values: AnyArray, valid: BoolArray | None, type_: pa.DataType, length: int
) -> pa.Array:
    """Return an Arrow column over the memory of `values`, without copying it."""
    # The values of an Arrow boolean column are a bitmap, which is also how validity is stored.
    bitmap = None if valid is None else pa.array(valid).buffers()[1]
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(type_, length, [bitmap, data])


def normalise_floats(column: pa.Array) -> pa.Array:
    """Make equal keys bitwise equal: a single NaN, -0.0 as 0.0, also in arrays and structs."""
    if pa.types.is_nested(column.type):
        return _normalise_nested(column) if _has_floats(column.type) else column
    if not pa.types.is_floating(column.type):
        return column
    values = float64_values(column) + 0.0
    values[np.isnan(values)] = np.nan
    return float64_array(values, validity(column), column.type)


def _normalise_nested(column: pa.Array) -> pa.Array:
    """Return arrays or structs with their floats as in `normalise_floats`."""
    valid = validity(column)
    is_null = None if valid is None else ~valid
    if pa.types.is_struct(column.type):
        fields = [normalise_floats(field) for field in column.flatten()]
        mask = None if is_null is None else pa.array(is_null)
        return pa.StructArray.from_arrays(fields, fields=list(column.type), mask=mask)
    values = normalise_floats(column.flatten())
    return list_array(_list_lengths(column), values, column.type, is_null)


def distinct_codes(column: pa.Array) -> tuple[Int64Array, pa.Array]:
    """Return codes of the values and the distinct values by first appearance; NULL is a value."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64), column[:1]
    if pa.types.is_nested(column.type):
        codes, distinct = distinct_codes(nested_bytes(column, lambda c: distinct_codes(c)[0]))
        first_row = np.empty(len(distinct), np.int64)
        # Assigned in reverse, so that the first row of each code wins.
        first_row[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
        return codes, column.take(from_buffer(first_row, None, pa.int64(), len(first_row)))
    encoded = column.dictionary_encode(null_encoding="encode")
    return int64_values(encoded.indices), encoded.dictionary


def ranks(column: pa.Array) -> tuple[Int64Array, pa.Array]:
    """Return the rank of each value and the distinct values in ascending order.

    NULL is the smallest: rank 0 is reserved for it. NaN is the largest. Strings and binaries are
    ordered by their bytes.
    """
    codes, distinct = distinct_codes(normalise_floats(column))
    n_values = len(distinct) - distinct.null_count
    # NULL comes last here, after NaN, and is cut off.
    ascending = pc.array_sort_indices(ordered_bytes(distinct))[:n_values]
    rank_of_code = np.zeros(len(distinct), np.int64)
    rank_of_code[ascending.to_numpy()] = np.arange(1, n_values + 1)
    return rank_of_code[codes], pa.concat_arrays(
        [pa.nulls(1, distinct.type), distinct.take(ascending)]
    )


def ordered_bytes(column: pa.Array) -> pa.Array:
    """Return arrays and structs as bytes of the same order; other types are unchanged.

    As in Spark, NULL is the smallest element, and an array comes after its prefixes.
    """
    if not pa.types.is_nested(column.type):
        return column
    return nested_bytes(column, lambda values: ranks(values)[0])


def nested_bytes(column: pa.Array, numbers_of: Callable[[pa.Array], Int64Array]) -> pa.Array:
    """Return arrays or structs as bytes: the numbers of their elements or fields, big-endian.

    Args:
        column: Arrays or structs of any types but maps.
        numbers_of: Function that returns a number, at least 0, for each element or field.
    """
    valid = validity(column)
    bitmap = None if valid is None else pa.array(valid).buffers()[1]
    if pa.types.is_struct(column.type):
        fields = [numbers_of(normalise_floats(field)) for field in column.flatten()]
        numbers = np.stack([np.zeros(len(column), np.int64), *fields], axis=1)
        type_ = pa.binary(numbers.shape[1] * _INT64.itemsize)
        return from_buffer(numbers.astype(">i8"), valid, type_, len(column))
    numbers = numbers_of(normalise_floats(column.flatten()))
    offsets = running_sums(_list_lengths(column)) * _INT64.itemsize
    data = [bitmap, pa.py_buffer(offsets), pa.py_buffer(numbers.astype(">i8"))]
    return pa.Array.from_buffers(pa.large_binary(), len(column), data)


def _list_lengths(column: pa.ListArray) -> Int64Array:
    lengths: Int64Array = pc.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
    return lengths


def _has_floats(type_: pa.DataType) -> bool:
    return pa.types.is_floating(type_) or any(
        _has_floats(type_.field(i).type) for i in range(type_.num_fields)
    )


def _data_buffer(column: pa.Array, dtype: Any) -> AnyArray:
    """Return the data buffer of a fixed-width column as numpy without copying it."""
    buffer = column.buffers()[1]
    if len(column) == 0 or buffer is None:
        return np.zeros(len(column), dtype=dtype)
    width = np.dtype(dtype)
    values: AnyArray = np.frombuffer(buffer, width, len(column), column.offset * width.itemsize)
    return values


def table_bytes(table: pa.Table) -> int:
    """Return the size of a table's rows: `nbytes` without bitmaps, several times faster."""
    n_bits = n_bytes = 0
    for place, type_ in enumerate(table.schema.types):
        if type_.id in _WIDTHS:
            n_bits += _WIDTHS[type_.id]
        elif pa.types.is_primitive(type_):
            n_bits += int(type_.bit_width)
        else:
            n_bytes += int(table.column(place).nbytes)
    return n_bytes + int(table.num_rows) * n_bits // 8


def mask_of(condition: pa.Array) -> BoolArray:
    """Return where a BOOLEAN column is TRUE; NULL counts as FALSE."""
    mask: BoolArray = one_chunk(condition).fill_null(False).to_numpy(zero_copy_only=False)
    return mask
