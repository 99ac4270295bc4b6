"""Paths of tables: globs, their data files, and errors for missing paths."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from itertools import filterfalse
from pathlib import Path

from runtime.errors import ExecutionError, nearest
from runtime.files import Files, LocalFiles, as_uri, is_local_path
from runtime.scan.files import is_hidden

_GLOB = re.compile(r"[*?{}\[\]]")
_LOCAL = LocalFiles()
# Minimum likeness of names of files without suffixes
_SIMILAR = 0.75


def path_for_spark(path: str, files: Files = _LOCAL) -> str:
    """Return a resolved path for Spark's reader; escape wildcards if that very path exists."""
    if _GLOB.search(path) is not None and files.exists(path):
        path = re.sub(r"([*?{}\[\]\\])", r"\\\1", path)
    return as_uri(path)


def is_glob(path: str, files: Files = _LOCAL) -> bool:
    """Return whether a resolved path is a glob: it has wildcards and does not exist literally."""
    return _GLOB.search(path) is not None and not files.exists(path)


def fixed_prefix(path: str) -> str:
    """Return the common prefix of all files below a resolved path or glob, without wildcards."""
    match = _GLOB.search(path)
    return f"{path.rstrip('/')}/" if match is None else path[: match.start()]


def expand(path: str, files: Files = _LOCAL) -> list[str]:
    """Return the files and directories that a resolved path or glob matches."""
    if is_glob(path, files):
        return files.expand(path)
    return [path] if files.exists(path) else []


def data_files(path: str, files: Files = _LOCAL) -> Iterator[str]:
    """List the files below a path or glob that Spark reads: no names starting with _ or a dot."""
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
    """Check that no symbolic link below a local path leads to one of its parent directories.

    Spark follows links and would read the same files again and again.

    Raises:
        ExecutionError: There is such a link.
    """
    for root in expand(path):
        for directory, below, _ in os.walk(root):
            real = f"{os.path.realpath(directory)}/"
            for name in below:
                link = os.path.join(directory, name)
                if os.path.islink(link) and real.startswith(f"{os.path.realpath(link)}/"):
                    raise ExecutionError(
                        f"{link} is a symbolic link to one of its parent directories, so "
                        "its files would be read repeatedly",
                        subjects=(path,),
                        hint="remove the link, or use a glob that matches only the "
                        "directories below it",
                    )


def missing_path(path: str) -> ExecutionError:
    """Return the error for a missing resolved path, suggesting the most similar existing name."""
    if _GLOB.search(path) is not None:
        return ExecutionError(f"no file matches {path}")
    if not is_local_path(path):
        return ExecutionError(f"{path} does not exist")
    if os.path.islink(path):
        return _broken_link(path)
    missing = Path(path)
    while not missing.parent.exists():
        missing = missing.parent
    siblings = sorted(os.listdir(missing.parent)) if os.access(missing.parent, os.R_OK) else []
    similar = _similar_file(missing.name, siblings)
    hint = (
        f"did you mean {missing.parent / similar}?"
        if similar
        else f"the directory {missing.parent} exists"
    )
    if missing.parent.is_file():
        hint = f"{missing.parent} is a file"
    return ExecutionError(f"{path} does not exist", hint=hint)


def _similar_file(name: str, siblings: Sequence[str]) -> str | None:
    """Return the file whose name is most similar, apart from suffixes, which many files share."""
    stems: dict[str, list[str]] = {}
    for sibling in siblings:
        stems.setdefault(_stem(sibling), []).append(sibling)
    stem = nearest(_stem(name), stems, _SIMILAR)
    return None if stem is None else nearest(name, stems[stem], 0.0)


def _stem(name: str) -> str:
    return name.lower().partition(".")[0] or name.lower()


def _broken_link(path: str) -> ExecutionError:
    """Return the error for a broken symbolic link."""
    try:
        os.stat(path)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return ExecutionError(
                f"{path} is a symbolic link to itself", hint="use the path of the file itself"
            )
    return ExecutionError(
        f"{path} is a symbolic link to {os.readlink(path)}, which does not exist",
        hint="use the path of the file itself",
    )
