"""Directories whose files run code when they are read, such as pickled state."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from runtime.errors import SetupError

_WRITERS = stat.S_IWGRP | stat.S_IWOTH
_VISITORS = stat.S_IXGRP | stat.S_IXOTH


def check_only_we_write(directory: str, what: str) -> None:
    """Check that only this user can have written a local directory, if it exists.

    Files below are checked as far as others can reach them.

    Args:
        directory: Path of the directory.
        what: The directory with its meaning, for the message.

    Raises:
        SetupError: Another user owns a file or directory, or can write it.
    """
    if not (hasattr(os, "geteuid") and os.path.isdir(directory)):
        return  # without users, or new
    can_be_reached = os.stat(directory).st_mode & _VISITORS
    for path in (directory, *(_below(directory) if can_be_reached else ())):
        status = os.lstat(path) if path != directory else os.stat(path)
        where = "it" if path == directory else os.path.relpath(path, directory)
        if status.st_uid != os.geteuid():
            raise SetupError(
                f"{what} may run another user's code, because {where} belongs to another user",
                hint="start it as the owner of the directory, or use a new directory",
            )
        if status.st_mode & _WRITERS and not stat.S_ISLNK(status.st_mode):
            raise SetupError(
                f"{what} may run another user's code, because others can write {where}",
                hint=f"if you trust its files: chmod -R go-w {directory}",
            )


def _below(directory: str) -> Iterator[str]:
    for parent, directories, files in os.walk(directory):
        for name in (*directories, *files):
            yield os.path.join(parent, name)
