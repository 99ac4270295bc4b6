"""INSERTs that one stream runs together: the first has the checkpoint, the others are part of it.

Each of the others has a directory with nothing but a file that says where:

    set.json        the directory of the checkpoint that the INSERT is part of
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from runtime.errors import ExecutionError
from runtime.files import Files

# What makes a directory a checkpoint, see `runtime.streaming.checkpoint`
FILE = "sqlwin.json"
ANOTHER = "take another 'execution.checkpointing.dir'"
# and of a directory that it is one of INSERTs that share another one
SET_FILE = "set.json"


def check_members(files: Files, directory: str, members: Sequence[str]) -> None:
    """Check that a checkpoint may be that of INSERTs that one stream runs together.

    Otherwise an INSERT would begin anew, and write once more what it has written.

    Args:
        files: the file system.
        directory: that of the checkpoint.
        members: the directories that the INSERTs would have by themselves, maybe `directory` too.

    Raises:
        ExecutionError: one of them has a checkpoint of its own, or is part of another one.
    """
    for member in members:
        shared = part_of(files, member)
        if shared not in (None, directory):
            raise _is_part(member, str(shared))
        if member != directory and files.exists(f"{member}/{FILE}"):
            raise ExecutionError(
                f"the INSERT with the checkpoint in {member} would begin anew in {directory}, with "
                "INSERTs that share its slices",
                hint="SET 'sqlwin.optimizer.disabled-rules' = 'share_window_slices' to resume it, "
                f"or {ANOTHER}",
            )


def mark_members(files: Files, directory: str, members: Sequence[str]) -> None:
    """Keep in mind that INSERTs are part of a checkpoint; arguments as in `check_members`."""
    for member in members:
        if member != directory and not files.exists(f"{member}/{SET_FILE}"):
            files.make_directory(member)
            files.write_text(f"{member}/{SET_FILE}", json.dumps({"checkpoint": directory}) + "\n")


def check_no_member(files: Files, directory: str) -> None:
    """Check that an INSERT by itself is not part of a checkpoint that it shares with others.

    Raises:
        ExecutionError: it is.
    """
    shared = part_of(files, directory)
    if shared is not None:
        raise _is_part(directory, shared)


def part_of(files: Files, directory: str) -> str | None:
    """The checkpoint that the INSERT of a directory is part of, if that is still there.

    Raises:
        ExecutionError: what says so cannot be read.
    """
    path = f"{directory}/{SET_FILE}"
    if not files.exists(path):
        return None
    try:
        found = str(json.loads(files.read_text(path))["checkpoint"])
    except (ValueError, KeyError, TypeError) as error:
        raise ExecutionError(f"{path} cannot be read: {error}", hint=ANOTHER) from error
    return found if files.exists(f"{found}/{FILE}") else None


def _is_part(directory: str, shared: str) -> ExecutionError:
    return ExecutionError(
        f"the INSERT of {directory} is part of the checkpoint in {shared}, which it shares with "
        "others of its statement set",
        hint=f"run that set to resume, or {ANOTHER}",
    )
