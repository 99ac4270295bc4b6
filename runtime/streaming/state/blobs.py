"""Named blobs of a key group, and how tables and facts are encoded in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.blobs import from_blobs, to_blob
from runtime.compute.arrow.packed import pack, unpack
from runtime.compute.kernels.columns import BoolArray, table_bytes
from runtime.errors import ExecutionError
from runtime.streaming.damage import OF_ANOTHER, damaged

# Name of the blob with an operator's facts: its state other than tables
FACTS = "facts"
# First byte of every blob. Another version was written by another version of sqlwin.
_VERSION = 2
# First byte of a packed table. Small tables are not packed.
_PACKED = 3
# First byte of the facts of a key group with sub-buckets
_IN_BUCKETS = 4
_WORTH_PACKING = 1024


@dataclass(frozen=True)
class Owner:
    """The checkpoint that state belongs to. Protects against state of another checkpoint.

    Attributes:
        directory: Directory of the checkpoint.
        token: Unique token of the checkpoint.
        operator: Number of the operator.
    """

    directory: str
    token: str
    operator: int = 0

    def signed(self) -> dict[str, Any]:
        """Return the facts that identify the checkpoint, as JSON values."""
        return {"checkpoint": self.token, "operator": self.operator}

    def check(self, facts: Mapping[str, Any]) -> None:
        """Check that facts were written for this checkpoint.

        Raises:
            ExecutionError: they were written for another one.
        """
        if facts.get("checkpoint") != self.token:
            raise damaged(self.directory, f"{self.directory}/spark/state", OF_ANOTHER)


class BlobStore(Protocol):
    """Named blobs of one key group. Changes of a failed micro-batch are discarded."""

    def get(self, name: str) -> bytes | None:
        """Return the blob with a name, or None."""

    def put(self, name: str, blob: bytes) -> None:
        """Write a blob, replacing an existing one of that name."""

    def remove(self, name: str) -> None:
        """Remove a blob if it exists."""


def known_blob(store: BlobStore, name: str) -> bytes:
    """Return a blob that was written and not removed since.

    Raises:
        ExecutionError: the state lacks it; results would be incomplete.
    """
    blob = store.get(name)
    if blob is None:
        raise lacks_blob(name)
    return blob


def lacks_blob(name: str) -> ExecutionError:
    """Return the error for a missing blob."""
    return ExecutionError(
        f"the state in the checkpoint is damaged: it lacks the blob {name}",
        hint="restore the checkpoint's directory from a copy, or start anew in another "
        "'execution.checkpointing.dir'",
    )


def encode_state(table: pa.Table) -> bytes:
    """Encode a table as a compact blob.

    It is smaller if similar rows are next to each other.
    """
    if table_bytes(table) <= _WORTH_PACKING:
        return versioned(to_blob(table))
    return bytes([_PACKED]) + pack(table)


def decode_table(blob: bytes) -> pa.Table:
    """Decode a table from `encode_state`.

    Raises:
        ExecutionError: the blob is of another version.
    """
    if blob and blob[0] == _PACKED:
        return unpack(memoryview(blob)[1:])
    return from_blobs([memoryview(blob)[checked(blob) :]])


def encode_facts(facts: dict[str, Any], *, are_in_buckets: bool = False) -> bytes:
    """Encode facts (JSON values) as a blob.

    Args:
        facts: Facts.
        are_in_buckets: Whether they are of a key group with sub-buckets.
    """
    contents = json.dumps(facts, separators=(",", ":")).encode()
    return bytes([_IN_BUCKETS]) + contents if are_in_buckets else versioned(contents)


def tells_of_buckets(blob: bytes) -> bool:
    """Return whether facts are of a key group with sub-buckets."""
    return blob[:1] == bytes([_IN_BUCKETS])


def decode_facts(blob: bytes) -> dict[str, Any]:
    """Decode facts from `encode_facts`.

    Raises:
        ExecutionError: the blob is of another version.
    """
    begin = 1 if tells_of_buckets(blob) else checked(blob)
    facts: dict[str, Any] = json.loads(blob[begin:])
    return facts


def encode_bits(bits: BoolArray) -> bytes:
    """Encode one bit per row of a table as a blob."""
    return versioned(np.packbits(bits).tobytes())


def decode_bits(blob: bytes, n_rows: int) -> BoolArray:
    """Decode `n_rows` bits from `encode_bits`.

    Raises:
        ExecutionError: the blob is of another version.
    """
    packed = np.frombuffer(blob, np.uint8, offset=checked(blob))
    return np.unpackbits(packed, count=n_rows).view(np.bool_)


def versioned(contents: bytes) -> bytes:
    """Return a blob of these contents, preceded by its version."""
    return bytes([_VERSION]) + contents


def checked(blob: bytes) -> int:
    """Check the version of a blob, and return the offset of its contents.

    Raises:
        ExecutionError: the blob is of another version.
    """
    if not blob or blob[0] != _VERSION:
        found = blob[0] if blob else "none"
        raise ExecutionError(
            f"the checkpoint holds state of version {found}, this sqlwin reads version {_VERSION}",
            hint="run it with the sqlwin that wrote it, or start with a new checkpoint directory",
        )
    return 1
