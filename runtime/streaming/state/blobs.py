"""What an operator keeps of a key group: named blobs, and what is written in them."""

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

# The blob with what an operator remembers of its key group beside its tables
FACTS = "facts"
# The first byte of every blob. A blob of another version was written by another sqlwin.
_VERSION = 2
# The first byte of a packed table; small ones are not packed
_PACKED = 3
# The first byte of the facts of a key group whose state is in sub-buckets
_IN_BUCKETS = 4
_WORTH_PACKING = 1024


@dataclass(frozen=True)
class Owner:
    """The checkpoint that state is part of, so that state of another one is not taken for its own.

    Attributes:
        directory: where it is.
        token: what no other checkpoint has.
        operator: the number of the operator whose state it is.
    """

    directory: str
    token: str
    operator: int = 0

    def signed(self) -> dict[str, Any]:
        """What an operator is to remember of it, as JSON has it."""
        return {"checkpoint": self.token, "operator": self.operator}

    def check(self, facts: Mapping[str, Any]) -> None:
        """Check that what an operator remembers was written for this checkpoint.

        Raises:
            ExecutionError: it was written for another.
        """
        if facts.get("checkpoint") != self.token:
            raise damaged(self.directory, f"{self.directory}/spark/state", OF_ANOTHER)


class BlobStore(Protocol):
    """Named blobs of one key group. What is written in a micro-batch that fails never was."""

    def get(self, name: str) -> bytes | None:
        """The blob of that name, or None."""

    def put(self, name: str, blob: bytes) -> None:
        """Write a blob, in place of one of that name."""

    def remove(self, name: str) -> None:
        """Forget a blob; it need not exist."""


def known_blob(store: BlobStore, name: str) -> bytes:
    """A blob that was written and not removed since.

    Raises:
        ExecutionError: the state lacks it: what it held would be missing in the results.
    """
    blob = store.get(name)
    if blob is None:
        raise lacks_blob(name)
    return blob


def lacks_blob(name: str) -> ExecutionError:
    """The error about a blob that state should have."""
    return ExecutionError(
        f"the state in the checkpoint is damaged: it lacks the blob {name}",
        hint="restore the checkpoint's directory from a copy, or start anew in another "
        "'execution.checkpointing.dir'",
    )


def encode_state(table: pa.Table) -> bytes:
    """A table as a blob that is kept, in as few bytes as can be had at little cost.

    Rows that are alike should be neighbours.
    """
    if table_bytes(table) <= _WORTH_PACKING:
        return versioned(to_blob(table))
    return bytes([_PACKED]) + pack(table)


def decode_table(blob: bytes) -> pa.Table:
    """The table that `encode_state` wrote.

    Raises:
        ExecutionError: the blob is of another version.
    """
    if blob and blob[0] == _PACKED:
        return unpack(memoryview(blob)[1:])
    return from_blobs([memoryview(blob)[checked(blob) :]])


def encode_facts(facts: dict[str, Any], *, are_in_buckets: bool = False) -> bytes:
    """Small facts, as JSON has them, as a blob.

    Args:
        facts: the facts.
        are_in_buckets: whether they are of a key group whose state is in sub-buckets.
    """
    contents = json.dumps(facts, separators=(",", ":")).encode()
    return bytes([_IN_BUCKETS]) + contents if are_in_buckets else versioned(contents)


def tells_of_buckets(blob: bytes) -> bool:
    """Whether facts are those of a key group whose state is in sub-buckets."""
    return blob[:1] == bytes([_IN_BUCKETS])


def decode_facts(blob: bytes) -> dict[str, Any]:
    """The facts that `encode_facts` wrote.

    Raises:
        ExecutionError: the blob is of another version.
    """
    begin = 1 if tells_of_buckets(blob) else checked(blob)
    facts: dict[str, Any] = json.loads(blob[begin:])
    return facts


def encode_bits(bits: BoolArray) -> bytes:
    """A bit for each row of a table, as a blob."""
    return versioned(np.packbits(bits).tobytes())


def decode_bits(blob: bytes, n_rows: int) -> BoolArray:
    """The bits that `encode_bits` wrote for so many rows.

    Raises:
        ExecutionError: the blob is of another version.
    """
    packed = np.frombuffer(blob, np.uint8, offset=checked(blob))
    return np.unpackbits(packed, count=n_rows).view(np.bool_)


def versioned(contents: bytes) -> bytes:
    """A blob of these contents, with its version in front."""
    return bytes([_VERSION]) + contents


def checked(blob: bytes) -> int:
    """Where the contents of a blob begin.

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
