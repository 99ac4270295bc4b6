"""The state of a key group: named blobs. An operator knows nothing else about where state is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from runtime.errors import ExecutionError
from runtime.streaming.damage import OF_ANOTHER, damage_error
from runtime.streaming.state.metadata import GroupMetadata, StateSignature

# Name of the blob with an operator's metadata: its state other than tables
METADATA = "metadata"


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

    @property
    def signature(self) -> StateSignature:
        """Signature of state that belongs to the checkpoint."""
        return StateSignature(self.token, self.operator)

    def check(self, metadata: GroupMetadata) -> None:
        """Check that metadata was written for this checkpoint.

        Raises:
            ExecutionError: They were written for another one.
        """
        if metadata.signature is None or metadata.signature.checkpoint != self.token:
            raise damage_error(self.directory, f"{self.directory}/spark/state", OF_ANOTHER)


class BlobStore(Protocol):
    """Named blobs of one key group. Changes of a failed micro-batch are discarded."""

    def get(self, name: str) -> bytes | None:
        """Return the blob with a name, or None."""

    def put(self, name: str, blob: bytes) -> None:
        """Write a blob, replacing an existing one of that name."""

    def remove(self, name: str) -> None:
        """Remove a blob if it exists."""


def required_blob(store: BlobStore, name: str) -> bytes:
    """Return a blob that was written and not removed since.

    Raises:
        ExecutionError: The state lacks it; results would be incomplete.
    """
    blob = store.get(name)
    if blob is None:
        raise lacks_blob(name)
    return blob


def lacks_blob(name: str) -> ExecutionError:
    """Return the error for a missing blob."""
    return ExecutionError(
        f"the state in the checkpoint is damaged: blob {name} is missing",
        hint="restore the checkpoint's directory from a backup, or start over with another "
        "'execution.checkpointing.dir'",
    )
