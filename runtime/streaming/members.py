"""INSERTs that one stream runs together: the first owns the checkpoint, the others share it.

Each of the others has a directory with a single file that names the checkpoint:

    set.json        directory of the checkpoint that the INSERT is part of
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.errors import ExecutionError
from runtime.files import Files
from runtime.records import from_text, to_text

# The file that makes a directory a checkpoint, see `runtime.streaming.checkpoint`
FILE = "sqlwin.json"
ANOTHER = "use another 'execution.checkpointing.dir'"
# The file of an INSERT that is part of another directory's checkpoint
SET_FILE = "set.json"
_VERSION = 1


@dataclass(frozen=True)
class _Part:
    """Content of `SET_FILE`: the directory of the checkpoint that the INSERT is part of."""

    checkpoint: str


def check_members(files: Files, directory: str, members: Sequence[str]) -> None:
    """Check that a checkpoint can belong to INSERTs that one stream runs together.

    Otherwise an INSERT would start over and write its output a second time.

    Args:
        files: File system.
        directory: Directory of the checkpoint.
        members: Directories that the INSERTs would have separately. May include `directory`.

    Raises:
        ExecutionError: One of them has its own checkpoint, or is part of another one.
    """
    for member in members:
        shared = part_of(files, member)
        if shared not in (None, directory):
            raise _is_part(member, str(shared))
        if member != directory and files.exists(f"{member}/{FILE}"):
            raise ExecutionError(
                f"the INSERT with the checkpoint in {member} would start over in "
                f"{directory}, together with INSERTs that share its slices",
                hint="SET 'sqlwin.optimizer.disabled-rules' = 'share_window_slices' to resume it, "
                f"or {ANOTHER}",
            )


def mark_members(files: Files, directory: str, members: Sequence[str]) -> None:
    """Record that INSERTs are part of a checkpoint. Arguments as in `check_members`."""
    for member in members:
        if member != directory and not files.exists(f"{member}/{SET_FILE}"):
            files.make_directory(member)
            files.write_text(f"{member}/{SET_FILE}", to_text(_Part(directory), _VERSION))


def check_no_member(files: Files, directory: str) -> None:
    """Check that an INSERT that runs alone is not part of a shared checkpoint.

    Raises:
        ExecutionError: It is.
    """
    shared = part_of(files, directory)
    if shared is not None:
        raise _is_part(directory, shared)


def part_of(files: Files, directory: str) -> str | None:
    """Return the checkpoint that a directory's INSERT is part of, or None if it does not exist.

    Raises:
        ExecutionError: The file that names it cannot be read.
    """
    path = f"{directory}/{SET_FILE}"
    if not files.exists(path):
        return None
    try:
        checkpoint = from_text(_Part, files.read_text(path), _VERSION).checkpoint
    except ValueError as error:
        raise ExecutionError(f"cannot read {path}: {error}", hint=ANOTHER) from error
    return checkpoint if files.exists(f"{checkpoint}/{FILE}") else None


def _is_part(directory: str, shared: str) -> ExecutionError:
    return ExecutionError(
        f"the INSERT in {directory} is part of the checkpoint in {shared}, shared with "
        "other INSERTs of its statement set",
        hint=f"run the whole statement set to resume, or {ANOTHER}",
    )
