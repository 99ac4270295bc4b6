"""Number group keys, not necessarily densely, for data that is grouped once.

Unlike `encode_keys`, this avoids hashing where possible: integers in a narrow range are used as
numbers, and dictionary-encoded columns, such as Parquet's, use their indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.conversions import (
    Int64Array,
    distinct_codes,
    from_buffer,
    int64_array,
    int64_values,
    integer_storage,
    is_variable_width,
    normalise_floats,
    one_chunk,
    validity,
)

# Integers are used directly if their range is at most this many times the number of rows.
_RANGE_PER_ROW = 4


@dataclass(frozen=True)
class KeyDigits:
    """Key of each row as one number.

    Attributes:
        codes: int64[n_rows], 0 .. n_codes - 1.
        n_codes: Bound of the codes; some may not occur.
        decode: Function from an array of codes to key columns. Strings and binaries are
            dictionary-encoded.
    """

    codes: Int64Array
    n_codes: int
    decode: Callable[[Int64Array], list[pa.Array]]


@dataclass(frozen=True)
class _Digit:
    codes: Int64Array
    n_codes: int
    decode: Callable[[Int64Array], pa.Array]


def key_digits(columns: Sequence[pa.Array], n_rows: int, max_codes: int) -> KeyDigits:
    """Number key tuples so that equal ones have equal numbers.

    NULL is a key value, NaN equals NaN, and -0.0 equals 0.0 and is decoded as 0.0. A value that
    occurs twice in a dictionary may have two numbers.

    Args:
        columns: Key columns of any flat type, dictionary-encoded or not; may be empty.
        n_rows: Number of rows, at least one.
        max_codes: Maximum number of codes, at least `n_rows`.
    """
    if not columns:
        return KeyDigits(np.zeros(n_rows, np.int64), 1, lambda codes: [])
    digits = [_digit(column) for column in columns]
    keys = KeyDigits(digits[0].codes, digits[0].n_codes, _only(digits[0]))
    for digit in digits[1:]:
        if keys.n_codes * digit.n_codes > max_codes:
            keys = _dense(keys)
        if keys.n_codes * digit.n_codes > max_codes:
            digit = _dense_digit(digit)
        keys = _join(keys, digit)
    return _dense(keys) if keys.n_codes > max_codes else keys


def _digit(column: pa.Array) -> _Digit:
    if pa.types.is_dictionary(column.type):
        if is_variable_width(column.type.value_type):
            return _dictionary_digit(column)
        column = column.dictionary_decode()
    column = one_chunk(column)
    if integer_storage(column.type) is not None and len(column) > column.null_count:
        low, high = _bounds(column)
        if high - low < max(_RANGE_PER_ROW * len(column), 256):
            return _range_digit(column, low, high)
    codes, distinct = distinct_codes(normalise_floats(column))
    return _Digit(codes, len(distinct), _lookup(distinct))


def _bounds(column: pa.Array) -> tuple[int, int]:
    """Return the smallest and largest integer; at least one is not NULL."""
    if pa.types.is_boolean(column.type):
        return 0, 1
    bounds = pc.min_max(column.view(integer_storage(column.type)))
    return bounds["min"].as_py(), bounds["max"].as_py()


def _range_digit(column: pa.Array, low: int, high: int) -> _Digit:
    """Number integers by their distance from the lowest; NULL comes after the highest."""
    codes = int64_values(column) - low
    null_code = high - low + 1
    valid = validity(column)
    if valid is not None:
        codes[~valid] = null_code

    def decode(codes: Int64Array) -> pa.Array:
        is_valid = None if valid is None else codes != null_code
        return int64_array(np.where(codes == null_code, 0, codes + low), is_valid, column.type)

    return _Digit(codes, null_code + (valid is not None), decode)


def _dictionary_digit(column: pa.DictionaryArray) -> _Digit:
    dictionary = column.dictionary
    codes = int64_values(column.indices)
    valid = validity(column.indices)
    if valid is not None:
        codes = np.where(valid, codes, len(dictionary))
        dictionary = pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)])
    return _Digit(codes, len(dictionary), _lookup(dictionary))


def _lookup(values: pa.Array) -> Callable[[Int64Array], pa.Array]:
    is_value = validity(values)
    # Represent NULL in the indices: Arrow cannot merge dictionaries that contain NULL.
    dictionary = values
    if is_value is not None and is_variable_width(values.type):
        dictionary = values.fill_null(pa.scalar(b"").cast(values.type))

    def decode(codes: Int64Array) -> pa.Array:
        if not is_variable_width(values.type):
            return values.take(pa.array(codes))
        valid = None if is_value is None else is_value[codes]
        indices = from_buffer(codes.astype(np.int32), valid, pa.int32(), len(codes))
        return pa.DictionaryArray.from_arrays(indices, dictionary)

    return decode


def _only(digit: _Digit) -> Callable[[Int64Array], list[pa.Array]]:
    return lambda codes: [digit.decode(codes)]


def _join(keys: KeyDigits, digit: _Digit) -> KeyDigits:
    def decode(codes: Int64Array) -> list[pa.Array]:
        high, low = np.divmod(codes, digit.n_codes)
        return [*keys.decode(high), digit.decode(low)]

    codes = keys.codes * digit.n_codes + digit.codes
    return KeyDigits(codes, keys.n_codes * digit.n_codes, decode)


def _dense(keys: KeyDigits) -> KeyDigits:
    """Renumber the keys densely."""
    codes, distinct = distinct_codes(pa.array(keys.codes))
    number_of = int64_values(distinct)
    return KeyDigits(codes, len(number_of), lambda dense: keys.decode(number_of[dense]))


def _dense_digit(digit: _Digit) -> _Digit:
    codes, distinct = distinct_codes(pa.array(digit.codes))
    number_of = int64_values(distinct)
    return _Digit(codes, len(number_of), lambda dense: digit.decode(number_of[dense]))
