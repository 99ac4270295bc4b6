"""Encode and decode everything in state: metadata, tables, bits, cells.

The first byte of a blob is its format. 0.2.0 is the first version that writes these formats; a blob
in another format is refused, and so is metadata whose fields differ from its dataclass.
"""

from __future__ import annotations

import json
import pickle

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from runtime.compute.arrow.blobs import from_blobs, to_blob
from runtime.compute.arrow.packed import pack, unpack
from runtime.compute.kernels.conversions import BoolArray, table_bytes
from runtime.errors import ExecutionError
from runtime.records import MalformedRecordError, from_json, to_json
from runtime.streaming.general.operator import OperatorState
from runtime.streaming.state.metadata import BucketMetadata, GroupMetadata

# Formats. Increase all of them when one changes, so that no version reads another one's state.
_PLAIN = 5
# A packed table. Small tables are not packed.
_PACKED = 6
# Metadata of a key group with sub-buckets
_IN_BUCKETS = 7
_WORTH_PACKING = 1024


def encode_metadata(metadata: GroupMetadata) -> bytes:
    """Encode the metadata of a key group."""
    contents = json.dumps(to_json(metadata), separators=(",", ":")).encode()
    has_buckets = isinstance(metadata.contents, BucketMetadata)
    return bytes([_IN_BUCKETS if has_buckets else _PLAIN]) + contents


def decode_metadata(blob: bytes) -> GroupMetadata:
    """Decode the metadata of a key group.

    Raises:
        ExecutionError: The blob is of another version, or has other fields.
    """
    begin = 1 if has_buckets(blob) else _contents_of(blob)
    try:
        return from_json(GroupMetadata, json.loads(blob[begin:]))
    except MalformedRecordError as error:
        raise ExecutionError(
            f"the state in the checkpoint cannot be read: {error}", hint=_OF_ANOTHER_VERSION
        ) from error


def has_buckets(blob: bytes) -> bool:
    """Return whether encoded metadata is of a key group with sub-buckets."""
    return blob[:1] == bytes([_IN_BUCKETS])


def encode_table(table: pa.Table) -> bytes:
    """Encode a table as a compact blob.

    It is smaller if similar rows are next to each other.
    """
    if table_bytes(table) <= _WORTH_PACKING:
        return _plain(to_blob(table))
    return bytes([_PACKED]) + pack(table)


def decode_table(blob: bytes) -> pa.Table:
    """Decode a table.

    Raises:
        ExecutionError: The blob is of another version.
    """
    if blob and blob[0] == _PACKED:
        return unpack(memoryview(blob)[1:])
    return from_blobs([memoryview(blob)[_contents_of(blob) :]])


def encode_bits(bits: BoolArray) -> bytes:
    """Encode one bit per row of a table."""
    return _plain(np.packbits(bits).tobytes())


def decode_bits(blob: bytes, n_rows: int) -> BoolArray:
    """Decode the bits of `n_rows` rows.

    Raises:
        ExecutionError: The blob is of another version.
    """
    packed = np.frombuffer(blob, np.uint8, offset=_contents_of(blob))
    return np.unpackbits(packed, count=n_rows).view(np.bool_)


def encode_cell(state: OperatorState) -> bytes:
    """Encode the state of a cell. It is pickled, because it holds values of the user's classes."""
    # by value, for classes from modules that only the driver has
    return _plain(cloudpickle.dumps(state))  # type: ignore[no-untyped-call]


def decode_cell(blob: bytes) -> OperatorState:
    """Decode the state of a cell.

    Raises:
        ExecutionError: The blob is of another version.
    """
    state: OperatorState = pickle.loads(memoryview(blob)[_contents_of(blob) :])
    return state


_OF_ANOTHER_VERSION = "use the sqlwin version that wrote it, or another checkpoint directory"


def _plain(contents: bytes) -> bytes:
    return bytes([_PLAIN]) + contents


def _contents_of(blob: bytes) -> int:
    """Check the version of a blob, and return the offset of its contents.

    Raises:
        ExecutionError: The blob is of another version.
    """
    if not blob or blob[0] != _PLAIN:
        version = blob[0] if blob else "none"
        raise ExecutionError(
            f"the checkpoint has state of version {version}, but this sqlwin reads version "
            f"{_PLAIN}",
            hint=_OF_ANOTHER_VERSION,
        )
    return 1
