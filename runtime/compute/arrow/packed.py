"""Compact format for tables that are written often, kept long and read rarely.

Numbers are reduced and then split into planes: all lowest bytes, all second bytes and so on, each
compressed separately (the byte stream split of Parquet). The low bytes of a sum are noise and
stored uncompressed, the high ones repeat; interleaved, as in Arrow, they would not compress.
Integers are first replaced by their distance from the smallest one or from their predecessor,
divided by the common divisor. A column equal to an earlier one, such as two counts of the same
rows, is written once. NULLs are omitted and recorded in a bitmap.

    header size | header's size unpacked | header, compressed | parts
    header = n schema bytes | n notes | schema, as Arrow IPC has it | planes of the notes

The notes are numbers that the reader consumes in the order in which they were written: the stored
and unpacked size of each part, and the encoding of each column.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.blobs import from_blobs, to_blob
from runtime.compute.kernels.conversions import (
    BoolArray,
    Int64Array,
    int64_array,
    int64_values,
    integer_storage,
    is_variable_width,
    validity,
)

_Bytes = npt.NDArray[np.uint8]

_SIZES = struct.Struct("<II")
# Smaller parts are not compressed.
_SMALL = 32
# Differences are used if neighbours are this many times closer than the smallest and largest value.
_CLOSER = 8
# Number of values from which a common divisor is guessed
_TRIED = 64


def pack(table: pa.Table) -> bytes:
    """Pack a table of any types; dictionary-encoded columns stay encoded."""
    packer = _Packer()
    for column in table.columns:
        packer.column(column.combine_chunks() if column.num_chunks != 1 else column.chunk(0))
    schema = table.schema.serialize().to_pybytes()
    notes = np.array([table.num_rows, *packer.notes], np.int64)
    header = b"".join([_SIZES.pack(len(schema), len(notes)), schema, _planes(notes).tobytes()])
    packed = _compress(header)
    return b"".join((_SIZES.pack(len(packed), len(header)), packed, *map(bytes, packer.parts)))


def unpack(blob: bytes | memoryview) -> pa.Table:
    """Restore a table from `pack`."""
    view = memoryview(blob)
    n_packed, n_header = _SIZES.unpack_from(view)
    start = _SIZES.size + n_packed
    header = memoryview(_decompress(view[_SIZES.size : start], n_header))
    n_schema, n_notes = _SIZES.unpack_from(header)
    schema = pa.ipc.read_schema(pa.py_buffer(header[_SIZES.size : _SIZES.size + n_schema]))
    planes = np.frombuffer(header, np.uint8, n_notes * 8, _SIZES.size + n_schema)
    n_rows, *notes = _join_planes(planes.reshape(8, n_notes)).view(np.int64).ravel().tolist()
    unpacker = _Unpacker(view[start:], iter(notes))
    columns = [unpacker.column(field.type, n_rows) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


class _Packer:
    """Writer of columns.

    Attributes:
        notes: Numbers for the reader.
        parts: Parts in the order in which they are written.
    """

    def __init__(self) -> None:
        self.notes: list[int] = []
        self.parts: list[bytes | _Bytes] = []
        self._integer_columns: list[Int64Array] = []

    def column(self, column: pa.Array) -> None:
        """Write a column."""
        type_ = column.type
        if not _is_packable(type_):
            self._part(to_blob(pa.table([column], ["c"])))
            return
        valid = validity(column)
        self.notes.append(int(valid is not None))
        if valid is not None:
            self._part(np.packbits(valid))
            column = column.drop_null()
        if integer_storage(type_) is not None:
            self._integers(int64_values(column))
        elif _is_plain(type_):
            self._plain(column, type_.bit_width // 8)
        elif is_list(type_):
            self._integers(pc.list_value_length(column).to_numpy().astype(np.int64))
            self.column(column.flatten())
        else:
            self._strings(column)

    def _integers(self, values: Int64Array) -> None:
        for number, before in enumerate(self._integer_columns):
            if _are_equal(before, values):
                self.notes.append(number)
                return
        self.notes.append(-1)
        self._integer_columns.append(values)
        if len(values) == 0:
            return
        low, high = int(values.min()), int(values.max())
        steps = np.diff(values)
        # as floats, because the sum of their sizes may be large
        distance = float(np.abs(steps.astype(np.float64)).sum())
        is_steps = distance * _CLOSER < (high - low) * len(steps)
        if is_steps:
            low = int(values[0])
            numbers = ((steps << 1) ^ (steps >> 63)).view(np.uint64)
        else:
            numbers = (values - np.int64(low)).view(np.uint64)
        divisor = _divisor(numbers)
        if divisor > 1:
            numbers = numbers // np.uint64(divisor)
        n_planes = (int(numbers.max()).bit_length() + 7) // 8
        self.notes += [int(is_steps), low, divisor, n_planes]
        self._planes(_planes(numbers)[:n_planes])

    def _plain(self, column: pa.Array, width: int) -> None:
        buffer = column.buffers()[1]
        if len(column) == 0 or buffer is None:
            return
        values = np.frombuffer(buffer, np.uint8, len(column) * width, column.offset * width)
        self._planes(_planes(values.reshape(-1, width)))

    def _strings(self, column: pa.Array) -> None:
        self._integers(pc.binary_length(column).to_numpy().astype(np.int64))
        _, ends, data = column.buffers()
        if len(column) == 0 or data is None:
            self._part(b"")
            return
        ends = np.frombuffer(ends, _offset_type(column.type))[column.offset :]
        first, last = int(ends[0]), int(ends[len(column)])
        self._part(np.frombuffer(data, np.uint8)[first:last])

    def _planes(self, planes: _Bytes) -> None:
        """Write planes, the lowest first.

        Only planes at either end are worth compressing; those between compressible high and low
        planes are noise and not tried.
        """
        n_bytes = planes.shape[1]
        parts: list[bytes | _Bytes] = list(planes)
        untried = list(range(len(planes)))
        for last in (-1, 0):
            while untried:
                number = untried.pop(last)
                parts[number] = _compress_if_shorter(planes[number])
                if len(parts[number]) == n_bytes:
                    break
        for part in parts:
            self._write(part, n_bytes)

    def _part(self, part: bytes | _Bytes) -> None:
        self._write(_compress_if_shorter(part), len(part))

    def _write(self, packed: bytes | _Bytes, n_bytes: int) -> None:
        self.notes += [len(packed), n_bytes]
        self.parts.append(packed)


class _Unpacker:
    """Reader of columns in the order in which they were written.

    Args:
        parts: Parts.
        notes: Notes after the number of rows.
    """

    def __init__(self, parts: memoryview, notes: Iterator[int]) -> None:
        self._parts = parts
        self._at = 0
        self._notes = notes
        self._integer_columns: list[Int64Array] = []

    def column(self, type_: pa.DataType, n_rows: int) -> pa.Array:
        """Read a column of `n_rows` rows."""
        if not _is_packable(type_):
            return from_blobs([self._part()]).column(0).combine_chunks()
        valid = None
        n_values = n_rows
        if next(self._notes):
            bits = np.frombuffer(self._part(), np.uint8)
            valid = np.unpackbits(bits, count=n_rows).view(np.bool_)
            n_values = int(valid.sum())
        column = self._values(type_, n_values)
        return column if valid is None else _spread_valid(column, valid)

    def _values(self, type_: pa.DataType, n_values: int) -> pa.Array:
        if integer_storage(type_) is not None:
            return int64_array(self._integers(n_values), None, type_)
        if _is_plain(type_):
            return self._plain(type_, n_values)
        lengths = self._integers(n_values)
        offset_type = _offset_type(type_)
        ends = np.zeros(n_values + 1, offset_type)
        np.cumsum(lengths, out=ends[1:])
        if not is_list(type_):
            buffers = [None, pa.py_buffer(ends), pa.py_buffer(self._part())]
            return pa.Array.from_buffers(type_, n_values, buffers)
        values = self.column(type_.value_type, int(ends[-1]))
        offsets = pa.Array.from_buffers(
            pa.from_numpy_dtype(offset_type), len(ends), [None, pa.py_buffer(ends)]
        )
        lists = pa.LargeListArray if pa.types.is_large_list(type_) else pa.ListArray
        return lists.from_arrays(offsets, values, type=type_)

    def _integers(self, n_values: int) -> Int64Array:
        twin = next(self._notes)
        if twin >= 0:
            return self._integer_columns[twin]
        values = self._new_integers(n_values) if n_values else np.zeros(0, np.int64)
        self._integer_columns.append(values)
        return values

    def _new_integers(self, n_values: int) -> Int64Array:
        is_steps, low, divisor, n_planes = (next(self._notes) for _ in range(4))
        planes = np.zeros((8, n_values - is_steps), np.uint8)
        for plane in planes[:n_planes]:
            plane[:] = np.frombuffer(self._part(), np.uint8)
        numbers = _join_planes(planes).view(np.uint64).ravel()
        if divisor > 1:
            numbers *= np.uint64(divisor)
        if not is_steps:
            return numbers.view(np.int64) + np.int64(low)
        values = np.empty(n_values, np.int64)
        values[0] = low
        values[1:] = (numbers >> np.uint64(1)).view(np.int64) ^ -(numbers & np.uint64(1)).view(
            np.int64
        )
        summed: Int64Array = np.cumsum(values)
        return summed

    def _plain(self, type_: pa.DataType, n_values: int) -> pa.Array:
        width = type_.bit_width // 8
        planes = np.zeros((width, n_values), np.uint8)
        if n_values:
            for plane in planes:
                plane[:] = np.frombuffer(self._part(), np.uint8)
        return pa.Array.from_buffers(type_, n_values, [None, pa.py_buffer(_join_planes(planes))])

    def _part(self) -> Any:
        n_packed, n_bytes = next(self._notes), next(self._notes)
        part = self._parts[self._at : self._at + n_packed]
        self._at += n_packed
        return part if n_packed == n_bytes else _decompress(part, n_bytes)


def _is_packable(type_: pa.DataType) -> bool:
    """Return whether this format packs columns of a type; others are written as Arrow IPC."""
    return (
        integer_storage(type_) is not None
        or _is_plain(type_)
        or is_variable_width(type_)
        or is_list(type_)
    )


def _is_plain(type_: pa.DataType) -> bool:
    """Return whether values have a fixed width but are not integers."""
    return bool(pa.types.is_floating(type_) or pa.types.is_decimal128(type_))


def is_list(type_: pa.DataType) -> bool:
    """Return whether values of an Arrow type are lists."""
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def _offset_type(type_: pa.DataType) -> type[np.int32] | type[np.int64]:
    is_large = (
        pa.types.is_large_string(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_large_list(type_)
    )
    return np.int64 if is_large else np.int32


def _divisor(numbers: npt.NDArray[np.uint64]) -> int:
    """Return a divisor of all numbers; 1 if the first ones have none in common."""
    divisor = gcd(*numbers[:_TRIED].tolist())
    is_noted = 1 < divisor < 1 << 63
    return divisor if is_noted and not (numbers % np.uint64(divisor)).any() else 1


def _spread_valid(column: pa.Array, valid: BoolArray) -> pa.Array:
    """Return the values at the valid positions, NULL elsewhere."""
    places = np.cumsum(valid) - 1
    return column.take(pa.array(places, mask=~valid))


def _planes(values: npt.NDArray[Any]) -> _Bytes:
    """Return uint8[bytes per value, values]: the bytes of all values by position."""
    as_bytes = values.view(np.uint8).reshape(len(values), -1)
    return np.ascontiguousarray(as_bytes.T)


def _join_planes(planes: _Bytes) -> _Bytes:
    """Return uint8[values, bytes per value], the inverse of `_planes`."""
    return np.ascontiguousarray(planes.T)


def _are_equal(left: Int64Array, right: Int64Array) -> bool:
    if len(left) != len(right):
        return False
    # the first value usually decides
    return len(left) == 0 or bool(left[0] == right[0] and (left == right).all())


def _compress_if_shorter(part: bytes | _Bytes) -> bytes | _Bytes:
    """Compress a part; return it unchanged if that is not longer."""
    if len(part) < _SMALL:
        return part
    packed = _compress(part)
    return packed if len(packed) < len(part) else part


def _compress(data: bytes | _Bytes) -> bytes:
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return packed


def _decompress(data: memoryview, n_bytes: int) -> bytes:
    unpacked: bytes = pa.decompress(data, n_bytes, codec="zstd", asbytes=True)
    return unpacked
