"""Paths of tables: globs, the data files below them, and errors for missing paths."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from itertools import filterfalse
from pathlib import Path

from runtime.errors import ExecutionError, nearest
from runtime.files import Files, LocalFiles, as_uri, is_local_path
from runtime.scan.files import is_hidden

_GLOB = re.compile(r"[*?{}\[\]]")
_LOCAL = LocalFiles()


def path_for_spark(path: str, files: Files = _LOCAL) -> str:
    """A resolved path as Spark's reader takes it: where it is there as it stands, it is no glob."""
    if _GLOB.search(path) is not None and files.exists(path):
        path = re.sub(r"([*?{}\[\]\\])", r"\\\1", path)
    return as_uri(path)


def is_glob(path: str, files: Files = _LOCAL) -> bool:
    """Whether a resolved path stands for many: it has a wildcard, and no file of that very name."""
    return _GLOB.search(path) is not None and not files.exists(path)


def fixed_part(path: str) -> str:
    """What the files below a resolved path or glob, with a slash behind them, all begin with."""
    match = _GLOB.search(path)
    return f"{path.rstrip('/')}/" if match is None else path[: match.start()]


def expand(path: str, files: Files = _LOCAL) -> list[str]:
    """The files and directories that a resolved path or glob stands for."""
    if is_glob(path, files):
        return files.expand(path)
    return [path] if files.exists(path) else []


def data_files(path: str, files: Files = _LOCAL) -> Iterator[str]:
    """The files below a path or glob that Spark would read: none that start with _ or dot."""
    for root in expand(path, files):
        if files.is_file(root):
            yield root
        elif is_local_path(root):
            yield from _local_files(root)
        else:
            for file in files.files_below(root):
                *directories, name = file.removeprefix(root).strip("/").split("/")
                if not (name.startswith((".", "_")) or any(map(is_hidden, directories))):
                    yield file


def _local_files(root: str) -> Iterator[str]:
    for directory, below, names in os.walk(root):
        below[:] = sorted(filterfalse(is_hidden, below))
        for name in sorted(names):
            if not name.startswith((".", "_")):
                yield os.path.join(directory, name)


def check_links(path: str) -> None:
    """Check that no symbolic link below a path of this machine leads to a directory above it.

    Spark follows links. Below such a one it would read the same files again and again.

    Raises:
        ExecutionError: one does.
    """
    for root in expand(path):
        for directory, below, _ in os.walk(root):
            real = f"{os.path.realpath(directory)}/"
            for name in below:
                link = os.path.join(directory, name)
                if os.path.islink(link) and real.startswith(f"{os.path.realpath(link)}/"):
                    raise ExecutionError(
                        f"{link} is a symbolic link to a directory above it: files in it would be "
                        "read many times",
                        subjects=(path,),
                        hint="remove the link, or name the directories below it by a glob",
                    )


def missing_path(path: str) -> ExecutionError:
    """The error for a resolved path that is not there: with the nearest name that is."""
    if _GLOB.search(path) is not None:
        return ExecutionError(f"no file matches {path}")
    if not is_local_path(path):
        return ExecutionError(f"{path} does not exist")
    if os.path.islink(path):
        return _broken_link(path)
    there = Path(path)
    while not there.parent.exists():
        there = there.parent
    siblings = sorted(os.listdir(there.parent)) if os.access(there.parent, os.R_OK) else []
    meant = nearest(there.name, siblings)
    hint = f"did you mean {there.parent / meant}?" if meant else f"{there.parent} is there"
    if there.parent.is_file():
        hint = f"{there.parent} is a file"
    return ExecutionError(f"{path} does not exist", hint=hint)


def _broken_link(path: str) -> ExecutionError:
    """The error for a symbolic link that leads to no file."""
    try:
        os.stat(path)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return ExecutionError(
                f"{path} is a symbolic link that leads to itself", hint="name the file behind it"
            )
    return ExecutionError(
        f"{path} is a symbolic link to {os.readlink(path)}, which does not exist",
        hint="name the file behind it",
    )
